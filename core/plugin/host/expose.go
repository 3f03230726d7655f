package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"harness.invalid/core/plugin/internal/wire"
)

// Expose starts a plugin for hosts that attach to it, calls ready with the address it listens at, and waits until it
// ends or the context does. The executable may be a debugger that starts the plugin: it shares this process's terminal,
// and gets its Ctrl-C. Standard output, which is the debugger's until the handshake and the plugin's after it, goes to
// out; standard error goes to spec.Stderr. Spec.Transport, Arena and Timeouts have no effect here.
func Expose(ctx context.Context, spec Spec, in io.Reader, out io.Writer, ready func(a Address, pid int)) error {
	if err := expose(ctx, spec, in, out, ready); err != nil {
		return fmt.Errorf("%s %s: %w", spec.Kind, spec.Name, err)
	}
	return nil
}

func expose(ctx context.Context, spec Spec, in io.Reader, out io.Writer, ready func(a Address, pid int)) (err error) {
	if err := checkKind(spec.Kind); err != nil {
		return err
	}
	if spec, err = spec.checked(); err != nil {
		return err
	}
	sockets, remove, err := newSocketFolder()
	if err != nil {
		return err
	}
	// Hosts come and go, so the socket keeps its name until the end.
	defer func() { err = errors.Join(err, remove()) }()
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(stopped, spec.Path, spec.Args...)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = closeGrace
	cmd.Dir = spec.Dir
	passed := exposedInheritance(sockets)
	if canInherit {
		other, lifeline, err := os.Pipe()
		if err != nil {
			return err
		}
		defer func() { _, _ = lifeline.Close(), other.Close() }()
		passed.file(wire.LifelineVariable, other)
	}
	passed.apply(cmd, Environment(os.Environ(), spec.threads(), spec.Env))
	greeted, unfit := false, error(nil)
	words := newLastWords(spec.Stderr)
	defer words.finish()
	cmd.Stdin, cmd.Stderr = in, words
	cmd.Stdout = &greeting{out: out, found: func(version, network, address string) {
		if version != strconv.Itoa(wire.ProtocolVersion) {
			unfit = versionError(version)
			stop()
			return
		}
		greeted = true
		ready(Address(network+":"+address), cmd.Process.Pid)
	}}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = cmd.Wait()
	switch {
	case unfit != nil:
		return unfit
	case ctx.Err() != nil:
		return nil // it was asked to end
	case !greeted:
		return fmt.Errorf("it ended before it said hello (%s): %w", cmd.ProcessState, ErrDied)
	case err != nil:
		return fmt.Errorf("%w (%s)", ErrDied, cmd.ProcessState)
	}
	return nil
}

// exposedInheritance adds the terminal and the variables that go-plugin sets when it starts a process itself. There is
// no certificate, so the plugin listens without TLS.
func exposedInheritance(sockets string) *inheritance {
	i := newInheritance(sockets)
	i.variables[wire.Handshake.MagicCookieKey] = wire.Handshake.MagicCookieValue
	i.variables["PLUGIN_PROTOCOL_VERSIONS"] = strconv.Itoa(wire.ProtocolVersion)
	if terminal := os.Getenv("TERM"); terminal != "" {
		i.variables["TERM"] = terminal
	}
	return i
}

// greeting passes on what a process prints and removes the handshake from it. A prompt, which has no end of line, is
// passed on at once.
type greeting struct {
	out   io.Writer
	found func(version, network, address string)
	held  []byte // what may be the beginning of the handshake
	done  bool
}

var handshakeLine = regexp.MustCompile(`1\|(\d+)\|(unix|tcp)\|([^|\n]+)\|grpc(?:\|[^\n]*)?\n`)

// Write implements io.Writer.
func (g *greeting) Write(b []byte) (int, error) {
	if g.done {
		return g.out.Write(b)
	}
	g.held = append(g.held, b...)
	pass := len(g.held)
	if m := handshakeLine.FindSubmatchIndex(g.held); m != nil {
		g.done = true
		version, network, address := string(g.held[m[2]:m[3]]), string(g.held[m[4]:m[5]]), string(g.held[m[6]:m[7]])
		if _, err := g.out.Write(append(g.held[:m[0]:m[0]], g.held[m[1]:]...)); err != nil {
			return 0, err
		}
		g.held = nil
		g.found(version, network, strings.TrimSpace(address))
		return len(b), nil
	}
	line := bytes.LastIndexByte(g.held, '\n') + 1
	if i := bytes.Index(g.held[line:], []byte("1|")); i >= 0 {
		pass = line + i
	} else if bytes.HasSuffix(g.held[line:], []byte("1")) {
		pass--
	}
	if _, err := g.out.Write(g.held[:pass]); err != nil {
		return 0, err
	}
	g.held = append(g.held[:0], g.held[pass:]...)
	return len(b), nil
}
