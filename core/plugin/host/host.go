// Package host runs plugins: it finds them (Discover), pins them (Pin), starts them (Launch) or attaches to running
// ones (Spec.Address), and makes each a backend.Backend or an optimizer.Optimizer that is used like one of this
// process.
//
// Control goes over gRPC. Tensors lie in a core/arena that host and plugins map; where memory cannot be shared, or
// on request, they are streamed instead. Results have the same bits either way. core/plugin/internal/wire describes
// the protocol.
//
// Every error names the plugin and the call. One that wraps ErrDied says that the process is gone, with its last
// words, and that another may be started. No plugin outlives its host.
package host

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"harness.invalid/core/plugin"
)

// ErrDied is wrapped by errors after which the plugin's process is gone: it crashed, or it missed a deadline and
// was killed.
var ErrDied = errors.New("the plugin died")

// NamePattern is what a plugin may be called.
var NamePattern = regexp.MustCompile(`^[a-z0-9-]+$`)

// Transport is how sections reach a plugin.
type Transport string

// The transports.
const (
	Memory Transport = "memory" // shared by host and plugin, where the system can; else as Stream
	Stream Transport = "stream" // sent over the wire
)

// Timeouts bound how long calls may take before the plugin counts as hung and is killed. Zero fields mean the default.
type Timeouts struct {
	Start time.Duration // until the plugin answers its first call: 30 s
	Call  time.Duration // every call that Open and Step do not name: 1 min
	// Open is for a device that compiles a small model, 10 min. Larger ones have longer, in proportion.
	Open time.Duration
	// Step is what a step, a commit, an update, or in an evaluation the time between two messages may take besides
	// computing, 10 min: longer for larger models, and with the time of the work on a very slow device. Once a few calls
	// have shown what they take, calls have a multiple of that, and at least Floor: 30 s.
	Step, Floor time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&t.Start, 30*time.Second)
	set(&t.Call, time.Minute)
	set(&t.Open, 10*time.Minute)
	set(&t.Step, 10*time.Minute)
	set(&t.Floor, 30*time.Second)
	return t
}

func checkKind(k plugin.Kind) error {
	if k != plugin.Backend && k != plugin.Optimizer {
		return fmt.Errorf("plugin: kind is %q, want %s or %s", k, plugin.Backend, plugin.Optimizer)
	}
	return nil
}
