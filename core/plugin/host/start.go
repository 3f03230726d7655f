package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"harness.invalid/core/arena"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

// prepare makes what the process inherits, and its command.
func (p *Process) prepare() (err error) {
	p.transport = p.spec.Transport
	if p.transport == Memory {
		if p.arena = p.spec.Arena; p.arena == nil {
			if p.arena, err = arena.New(); err != nil {
				return err
			}
			p.ownArena = true
		}
		if p.arena.File() == nil {
			p.transport = Stream
		}
	}
	if p.sockets, p.unsocket, err = newSocketFolder(); err != nil {
		return err
	}
	passed := newInheritance(p.sockets)
	if p.tls, passed.variables[wire.CertificateVariable], err = newTLS(); err != nil {
		return err
	}
	if canInherit {
		if p.lifelineOther, p.lifeline, err = os.Pipe(); err != nil {
			return err
		}
		passed.file(wire.LifelineVariable, p.lifelineOther)
		if p.transport == Memory {
			passed.file(wire.ArenaVariable, p.arena.File())
		}
	}
	p.environment = Environment(os.Environ(), p.spec.threads(), p.spec.Env)
	path, args, err := p.spec.confined(p.sockets, p.environment)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir = p.spec.Dir
	p.child = newChild(p.cmd)
	p.kill = p.child.kill
	passed.apply(p.cmd, p.environment)
	return nil
}

// dialOptions are those of all connections. One that was dropped as idle could not be made again: its socket has no
// name any more.
var dialOptions = []grpc.DialOption{
	grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes)),
	grpc.WithIdleTimeout(0),
}

// start runs the process and connects to it. On Linux the kernel kills a child when the thread that started it ends
// (PR_SET_PDEATHSIG), so the process is started from a thread that does nothing else while the process lives.
func (p *Process) start(ctx context.Context) (grpc.ClientConnInterface, error) {
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{wire.ProtocolVersion: {string(p.spec.Kind): &connection{}}},
		RunnerFunc:       p.runner,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: p.sockets},
		SkipHostEnv:      true,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        p.tls,
		StartTimeout:     p.spec.Timeouts.Start,
		Stderr:           p.words,
		SyncStderr:       p.words,
		SyncStdout:       p.words,
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard}), // it then parses no lines
		GRPCDialOptions:  dialOptions,
	})
	type result struct {
		conn any
		err  error
	}
	started := make(chan result, 1)
	p.thread.Add(1)
	go func() {
		defer p.thread.Done()
		// Never unlocked: the thread ends with this goroutine, after the process.
		runtime.LockOSThread()
		client, err := p.client.Client()
		if err != nil {
			started <- result{nil, err}
		} else {
			conn, err := client.Dispense(string(p.spec.Kind))
			started <- result{conn, err}
		}
		<-p.ended
	}()
	var r result
	select {
	case r = <-started:
	case <-ctx.Done():
		p.kill()
		r = <-started // soon, as the process is gone
		if r.err == nil {
			r.err = ctx.Err()
		}
	}
	if r.err != nil {
		return nil, p.startError(ctx, r.err)
	}
	conn, ok := r.conn.(grpc.ClientConnInterface)
	if !ok {
		return nil, fmt.Errorf("connection is a %T", r.conn)
	}
	return conn, nil
}

// runner is the process as go-plugin asks for it: with its variables, and with the folder that it made for the socket. That
// one lies in p.sockets, whose name is as long as a socket's may be, so the plugin uses p.sockets itself.
func (p *Process) runner(_ hclog.Logger, want *exec.Cmd, _ string) (runner.Runner, error) {
	p.cmd.Stdin = want.Stdin
	p.cmd.Env = slices.Concat(p.cmd.Env, want.Env, []string{socketFolderVariable + "=" + p.sockets}) // the last of a name counts
	return p.child, nil
}

// versionMismatch is go-plugin's message when there is no common version.
var versionMismatch = regexp.MustCompile(`(?i)incompatible API version with plugin. Plugin version: (\d+)`)

func versionError(plugins string) error {
	return fmt.Errorf("it speaks protocol version %s, this harness speaks version %d: build it against this harness's core/plugin, "+
		"or use another release of it", plugins, wire.ProtocolVersion)
}

// startError translates go-plugin's errors into this program's.
func (p *Process) startError(ctx context.Context, err error) error {
	message := err.Error()
	switch {
	case context.Cause(ctx) == context.Canceled:
		return context.Canceled
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case strings.Contains(message, "timeout while waiting for plugin"):
		err = fmt.Errorf("no answer within %v, so it was killed: %w", p.spec.Timeouts.Start, ErrDied)
	case versionMismatch.MatchString(message):
		return versionError(versionMismatch.FindStringSubmatch(message)[1])
	case strings.Contains(message, "Unrecognized remote plugin message"), strings.Contains(message, "plugin exited before"):
		err = p.handshakeError(message)
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		return err
	}
	return p.withLastWords(err, 0)
}

// handshakeError says what came in place of the handshake. go-plugin's message quotes it behind "message:", if there
// was anything.
func (p *Process) handshakeError(message string) error {
	reason := "it ended before it said hello"
	line, _, _ := strings.Cut(message, "\n")
	if _, printed, _ := strings.Cut(line, "message:"); strings.TrimSpace(printed) != "" {
		reason = fmt.Sprintf("it is no harness plugin: it printed %q instead of the handshake", clip(strings.TrimSpace(printed)))
	}
	p.awaitExit()
	if status := p.exitStatus(); status != "" {
		reason += " (" + status + ")"
	}
	return fmt.Errorf("%s: %w", reason, ErrDied)
}

// clip shortens the output of a program that is not a plugin.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// greet makes sure that the process serves the kind of plugin that is wanted.
func (p *Process) greet(ctx context.Context) (err error) {
	switch p.spec.Kind {
	case plugin.Backend:
		_, err = p.backend.Describe(ctx, &pb.DescribeRequest{})
	case plugin.Optimizer:
		_, err = p.optimizer.Describe(ctx, &pb.DescribeRequest{})
	}
	if err == nil {
		return nil
	}
	// gRPC's message for a missing service differs from language to language; every plugin describes itself.
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("it is a plugin, but no %s", p.spec.Kind)
	}
	return p.translate(ctx, p.spec.Timeouts.Start, 0, err)
}
