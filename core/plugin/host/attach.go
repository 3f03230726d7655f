package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

// Address is where a plugin listens that another process started, one under a debugger: unix:PATH, or tcp:HOST:PORT with this machine as HOST. There is no
// TLS: a socket is its owner's by the permissions of its folder.
type Address string

func (a Address) split() (network, address string, err error) {
	network, address, ok := strings.Cut(string(a), ":")
	switch {
	case ok && network == "unix" && address != "":
		return network, address, nil
	case ok && network == "tcp":
		host, port, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && port != "" && (host == "localhost" || ip != nil && ip.IsLoopback()) {
			return network, address, nil
		}
		return "", "", fmt.Errorf("address %s is not HOST:PORT on this machine, such as tcp:127.0.0.1:4000", a)
	}
	return "", "", fmt.Errorf("address is %q, want unix:PATH or tcp:HOST:PORT", string(a))
}

// Check reports an address that nobody can listen at.
func (a Address) Check() error {
	_, _, err := a.split()
	return err
}

// forever is how long a plugin may take that somebody looks at.
const forever = 10 * 365 * 24 * time.Hour

// attach connects to a plugin that runs already. Its memory is streamed, for only children inherit an arena. No call has a deadline, as it may stand at a
// breakpoint, and Close leaves it running for the next host.
func attach(ctx context.Context, spec Spec) (*Process, error) {
	network, address, err := spec.Address.split()
	if err != nil {
		return nil, err
	}
	spec.Timeouts = Timeouts{Start: forever, Call: forever, Open: forever, Step: forever}
	p := &Process{spec: spec, transport: Stream, words: newLastWords(nil)}
	p.attached, err = grpc.NewClient("passthrough:///"+address, append(dialOptions,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))...)
	if err != nil {
		return nil, err
	}
	p.kill = func() { _ = p.attached.Close() } // its only error is that it is closed
	p.close = func() error { p.kill(); return nil }
	p.serveCalls(p.attached)
	if err := p.greet(ctx); err != nil {
		if errors.Is(err, ErrDied) {
			err = fmt.Errorf("no plugin answers at %s: was it ended? %w", spec.Address, err)
		}
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// serveCalls makes the clients of the plugin's services.
func (p *Process) serveCalls(conn grpc.ClientConnInterface) {
	p.backend, p.optimizer, p.sections = pb.NewBackendClient(conn), pb.NewOptimizerClient(conn), pb.NewSectionsClient(conn)
}

// Exited reports whether the process is gone, or, of one that another process started, the connection.
func (p *Process) Exited() bool {
	if p.attached != nil {
		s := p.attached.GetState()
		return s == connectivity.TransientFailure || s == connectivity.Shutdown
	}
	return p.client.Exited()
}

// Expose starts a plugin for hosts that attach to it, tells ready where it listens, and waits until it ends or the context does. The executable may be a
// debugger that starts the plugin: it has this process's terminal, and gets its Ctrl-C. Before the handshake standard output is the debugger's, and later the
// plugin's; it goes to out, that of errors to spec.Stderr. Spec.Transport, Arena and Timeouts have no meaning here.
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
	if err := spec.checkPin(); err != nil {
		return err
	}
	sockets, err := newSocketFolder()
	if err != nil {
		return err
	}
	// Hosts come and go, so the socket keeps its name until the end.
	defer func() { err = errors.Join(err, os.RemoveAll(sockets)) }()
	var stopped context.Context
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(stopped, spec.Path, spec.Args...)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = closeGrace
	cmd.Dir = spec.Dir
	passed := map[string]string{
		wire.Handshake.MagicCookieKey: wire.Handshake.MagicCookieValue, "PLUGIN_PROTOCOL_VERSIONS": strconv.Itoa(wire.ProtocolVersion),
		"PLUGIN_UNIX_SOCKET_DIR": sockets, wire.HostVariable: strconv.Itoa(os.Getpid()),
	}
	if terminal := os.Getenv("TERM"); terminal != "" {
		passed["TERM"] = terminal
	}
	if canInherit {
		other, lifeline, err := os.Pipe()
		if err != nil {
			return err
		}
		defer func() { _, _ = lifeline.Close(), other.Close() }()
		passed[wire.LifelineVariable] = strconv.Itoa(3 + len(cmd.ExtraFiles))
		cmd.ExtraFiles = append(cmd.ExtraFiles, other)
	}
	cmd.Env = withVariables(Environment(os.Environ(), spec.threads(), spec.Env), passed)
	greeted, unfit := false, error(nil)
	words := newLastWords(spec.Stderr)
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

// greeting passes on what a process prints until it finds the handshake in it, which it takes out. A prompt without an end of line is passed on at once.
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

// threads is the plugin's GOMAXPROCS.
func (s *Spec) threads() int {
	if s.Threads == 0 {
		return runtime.NumCPU()
	}
	return s.Threads
}
