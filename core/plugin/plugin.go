// Package plugin runs backends and optimizers in processes of their own. It is both ends of the wire: a plugin's whole main is
//
//	func main() { plugin.ServeBackend(tpu.New()) }
//
// in a binary named harness-backend-tpu, and a host starts it with Launch and gets a backend.Backend or an optimizer.Optimizer that is
// used like one of its own.
//
// Control goes over gRPC (go-plugin with mutual TLS); proto/v1 is the contract, for plugins in any language. Tensors lie in a core/arena that
// host and plugins map. Where memory can't be shared, or the host asks for it, the same sections go over a stream of chunks. Results have equal
// bits either way.
//
// Nothing that a plugin holds is precious: the host owns parameters, gradients and optimizer state. Every error names the plugin and the call; one
// that wraps ErrDied says that the process is gone, with its last words, and that the host may start another. No plugin outlives its host.
package plugin

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
)

//go:generate go -C proto/_gen run .

// ProtocolVersion is the version of proto/v1. A host and a plugin work together when they have a version in common.
const ProtocolVersion = 1

// handshake keeps people from running a plugin by hand; it is no secret.
var handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  ProtocolVersion,
	MagicCookieKey:   "HARNESS_PLUGIN",
	MagicCookieValue: "5f0c4e0e0a2b4c2f9f6d1c7b8a3e2d10",
}

// Environment variables by which the host tells a plugin about what it inherits. proto/v1/common.proto documents them.
const (
	arenaVariable    = "HARNESS_ARENA_FD"
	lifelineVariable = "HARNESS_LIFELINE_FD"
	hostVariable     = "HARNESS_HOST_PID"
)

// Limits on messages. A chunk of a section or of an output stays well below the greatest message, and so does everything else that is sent.
const (
	maxMessageBytes = 16 << 20
	chunkElements   = 1 << 20 // 4 MiB: measured no faster with more
	maxStateBytes   = 8 << 20
	maxSlots        = 64
	// batchElements is the number of tokens of a message of a batch: five arrays of small numbers of one or two bytes, so about a MiB.
	batchElements = 1 << 17
)

// ErrDied is wrapped by errors after which the plugin's process is gone: it crashed, or hung past a deadline and was killed.
var ErrDied = errors.New("the plugin died")

// Kind is what a plugin is.
type Kind string

// The kinds of plugins.
const (
	Backend   Kind = "backend"
	Optimizer Kind = "optimizer"
)

func (k Kind) check() error {
	if k != Backend && k != Optimizer {
		return fmt.Errorf("plugin: kind is %q, want %s or %s", k, Backend, Optimizer)
	}
	return nil
}

// NamePattern is what a plugin may be called.
var NamePattern = regexp.MustCompile(`^[a-z0-9-]+$`)

// Transport is how sections get to a plugin.
type Transport string

// The transports.
const (
	Memory Transport = "memory" // shared between host and plugin, where the system has it; else as Stream
	Stream Transport = "stream" // sent over the wire
)

// Timeouts are the longest times that calls may take before the plugin counts as hung and is killed. Zero fields have the default.
type Timeouts struct {
	Start time.Duration // until the plugin answers its first call: 30 s
	Call  time.Duration // Describe, Slots, Save, Load, Close: 1 min
	Open  time.Duration // 10 min: a real device compiles here
	Step  time.Duration // a step, a commit, an update; while evaluating, between two messages: 10 min
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
	return t
}
