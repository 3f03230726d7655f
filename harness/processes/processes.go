// Package processes owns running plugins: it starts them as the catalog says, asks them what they are, hands them
// out to runs, and ends them. A Set has the plugins of one run; a Pool has the sets of an experiment.
package processes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"

	"harness.invalid/core/arena"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/hint"
)

// Options say how plugins are started.
type Options struct {
	Transport host.Transport // empty: host.Memory
	Arena     *arena.Arena   // memory that the plugin shares with others; nil: it gets its own. See host.Spec
	// Output gets what the plugin prints: whole lines, each after the plugin's kind and name, one Write each, from any
	// goroutine. Nil: lines appear only in errors.
	Output io.Writer
}

// SandboxVariable is the environment variable that names what confines the plugins of others; see host.Spec.
const SandboxVariable = "HARNESS_SANDBOX"

// Launch starts the plugin of a name.
func Launch(ctx context.Context, k plugin.Kind, name string, o Options) (*host.Process, error) {
	e, err := catalog.Find(k, name)
	if err != nil {
		return nil, err
	}
	return Start(ctx, e, o)
}

// Start starts a plugin of the catalog.
func Start(ctx context.Context, e catalog.Entry, o Options) (*host.Process, error) {
	s, err := Spec(e)
	if err != nil {
		return nil, err
	}
	s.Transport, s.Arena, s.Stderr = o.Transport, o.Arena, Prefixed(o.Output, e)
	p, err := host.Launch(ctx, s)
	return p, ExplainChange(err, e)
}

// Spec returns how this program starts a plugin, without transport, arena and output.
func Spec(e catalog.Entry) (host.Spec, error) {
	s := host.Spec{
		Kind: e.Kind, Name: e.Name, Path: e.Path, Args: e.Args, Env: e.Env, Address: e.Address,
		// As many threads as this program may use: its own setting or the limit of a container holds for all.
		Threads:  runtime.GOMAXPROCS(0),
		Timeouts: host.Timeouts{Start: e.Patience},
	}
	if !e.BuiltIn {
		s.Files, s.Sandbox = e.Source(), os.Getenv(SandboxVariable)
	}
	var err error
	s.Dir, err = os.Getwd()
	return s, err
}

// ExplainChange adds a hint to the error of a pinned plugin that has changed. Other errors stay as they are.
func ExplainChange(err error, e catalog.Entry) error {
	if !errors.Is(err, host.ErrChanged) {
		return err
	}
	return hint.With(err, "if the change is yours, accept it with: harness plugin install %s", hint.Quote(e.Source()))
}

// Prefixed returns a writer that passes lines on to out, each after the plugin's kind and name, or nil if out is nil.
func Prefixed(out io.Writer, e catalog.Entry) io.Writer {
	if out == nil {
		return nil
	}
	return &prefixed{prefix: string(e.Kind) + " " + e.Name + ": ", out: out}
}

type prefixed struct {
	prefix string
	out    io.Writer
	rest   []byte // of a line that is not finished
}

// Write implements io.Writer. Empty lines are left out.
func (p *prefixed) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		line, rest, ok := bytes.Cut(p.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		p.rest = rest
		if line = bytes.TrimRight(line, " \r"); len(line) == 0 {
			continue
		}
		if _, err := io.WriteString(p.out, p.prefix+string(line)+"\n"); err != nil {
			return 0, err
		}
	}
}
