package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"harness.invalid/core/arena"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

// Spec says which plugin to start, and how.
type Spec struct {
	Kind plugin.Kind
	Name string   // in errors; the NAME of harness-backend-NAME
	Path string   // of the executable
	Args []string // without the executable's name

	// Env adds to the environment that plugins get, or changes it: NAME=value. See Environment.
	Env []string
	// Threads is the plugin's GOMAXPROCS; 0 is as many as there are CPUs.
	Threads int
	// Dir is the plugin's working folder; empty: the host's.
	Dir string

	// Transport is Memory when empty.
	Transport Transport
	// Arena is the memory that host and plugins share: sessions must be opened over sections of it. It stays the host's, and outlives the process. Without
	// one the process has an arena of its own, and the host's memory is copied there and back around every call.
	Arena *arena.Arena

	// Address is where the plugin listens when another process runs it; then nothing is started. See Expose.
	Address Address

	// Files is the file or the folder that the plugin consists of. When it is pinned (see Pin) and was changed since, the plugin is not started. Empty: not checked.
	Files string
	// Stderr gets what the plugin prints, as it comes; nil: nobody.
	Stderr   io.Writer
	Timeouts Timeouts
}

// Process is a plugin that runs. Backend or Optimizer uses it; Close ends it.
type Process struct {
	spec        Spec
	transport   Transport
	environment []string
	words       *lastWords
	sockets     string // folder of the plugin's socket, "" once it is gone

	attached *grpc.ClientConn // to a process that another one started; then there is no more than this, its clients and what ends it

	cmd    *exec.Cmd
	tls    *tls.Config
	client *goplugin.Client
	kill   context.CancelFunc // kills the process at once
	// The host holds this end of the lifeline open, and nobody else; the process reads the other.
	lifeline, lifelineOther *os.File
	ended                   chan struct{} // closed by Close: lets the thread go that the process was started from
	thread                  sync.WaitGroup

	arena    *arena.Arena
	ownArena bool

	backend   pb.BackendClient
	optimizer pb.OptimizerClient
	sections  pb.SectionsClient

	close func() error
}

// Launch starts a plugin and waits until it answers. The context bounds the start, not the life of the process.
func Launch(ctx context.Context, spec Spec) (*Process, error) {
	p, err := launch(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s %s: start: %w", spec.Kind, spec.Name, err)
	}
	return p, nil
}

func launch(ctx context.Context, spec Spec) (_ *Process, err error) {
	if err := checkKind(spec.Kind); err != nil {
		return nil, err
	}
	if spec.Transport == "" {
		spec.Transport = Memory
	}
	if spec.Transport != Memory && spec.Transport != Stream {
		return nil, fmt.Errorf("transport is %q, want %s or %s", spec.Transport, Memory, Stream)
	}
	if spec.Address != "" {
		return attach(ctx, spec)
	}
	if err := spec.checkPin(); err != nil {
		return nil, err
	}
	spec.Timeouts = spec.Timeouts.withDefaults()
	p := &Process{spec: spec, words: newLastWords(spec.Stderr), ended: make(chan struct{})}
	p.close = sync.OnceValue(p.end)
	defer func() {
		if err != nil {
			if p.kill != nil {
				p.kill() // one that stands still does not end when it is asked to
			}
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.prepare(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Timeouts.Start, fmt.Errorf("no answer within %v, so it was killed: %w", spec.Timeouts.Start, ErrDied))
	defer cancel()
	conn, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	p.serveCalls(conn)
	if err := p.greet(ctx); err != nil {
		return nil, err
	}
	// The connection is there, and there will be no other: without a name nothing of it can stay behind.
	return p, p.removeSockets()
}

// prepare makes what the process inherits, and the command.
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
	if p.sockets, err = newSocketFolder(); err != nil {
		return err
	}
	life, cancel := context.WithCancel(context.Background())
	p.kill = cancel
	p.cmd = exec.CommandContext(life, p.spec.Path, p.spec.Args...)
	p.cmd.Dir = p.spec.Dir
	passed := map[string]string{"PLUGIN_UNIX_SOCKET_DIR": p.sockets, wire.HostVariable: fmt.Sprint(os.Getpid())}
	if p.tls, passed[wire.CertificateVariable], err = newTLS(); err != nil {
		return err
	}
	if canInherit {
		if p.lifelineOther, p.lifeline, err = os.Pipe(); err != nil {
			return err
		}
		p.inherit(passed, wire.LifelineVariable, p.lifelineOther)
		if p.transport == Memory {
			p.inherit(passed, wire.ArenaVariable, p.arena.File())
		}
	}
	p.environment = Environment(os.Environ(), p.spec.threads(), p.spec.Env)
	p.cmd.Env = withVariables(p.environment, passed)
	p.cmd.SysProcAttr = processAttributes()
	return nil
}

func (p *Process) inherit(environment map[string]string, variable string, f *os.File) {
	environment[variable] = fmt.Sprint(3 + len(p.cmd.ExtraFiles))
	p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, f)
}

// dialOptions are those of all connections. One that was given up for idleness could not be made again: its socket has no name any more.
var dialOptions = []grpc.DialOption{
	grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes)),
	grpc.WithIdleTimeout(0),
}

// start runs the process and connects to it. On Linux the kernel kills a child when the thread dies that started it (PR_SET_PDEATHSIG), so the
// process is started from a thread that does nothing else as long as the process lives.
func (p *Process) start(ctx context.Context) (grpc.ClientConnInterface, error) {
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{wire.ProtocolVersion: {string(p.spec.Kind): &connection{}}},
		Cmd:              p.cmd,
		SkipHostEnv:      true,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        p.tls,
		StartTimeout:     p.spec.Timeouts.Start,
		Stderr:           p.words,
		SyncStderr:       p.words,
		SyncStdout:       p.words,
		Logger:           hclog.NewNullLogger(),
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
		r = <-started // the process is gone, so this is soon
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

// versionMismatch is how go-plugin says that there is no common version.
var versionMismatch = regexp.MustCompile(`(?i)incompatible API version with plugin. Plugin version: (\d+)`)

func versionError(plugins string) error {
	return fmt.Errorf("it speaks protocol version %s, this harness speaks version %d: build it against this harness's core/plugin, or take another release of it",
		plugins, wire.ProtocolVersion)
}

// startError says in this program's words what go-plugin says in its own.
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
		reason := "it ended before it said hello"
		if line, _, _ := strings.Cut(message, "\n"); !strings.HasSuffix(strings.TrimSpace(line), "message:") && strings.Contains(line, "message:") {
			_, said, _ := strings.Cut(line, "message:")
			reason = fmt.Sprintf("it is no harness plugin: it printed %q instead of the handshake", clip(strings.TrimSpace(said)))
		}
		p.awaitExit()
		if status := p.exitStatus(); status != "" {
			reason += " (" + status + ")"
		}
		err = fmt.Errorf("%s: %w", reason, ErrDied)
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		return err
	}
	return p.withLastWords(err, 0)
}

// clip shortens what a stranger printed.
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
	// What gRPC itself says of a service that is not there differs from language to language; every plugin describes itself.
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("it is a plugin, but no %s", p.spec.Kind)
	}
	return p.translate(ctx, p.spec.Timeouts.Start, 0, err)
}

// checkPin reports a plugin that was pinned and changed since.
func (s *Spec) checkPin() error {
	if s.Files == "" {
		return nil
	}
	return CheckPin(s.Files)
}

// Environment is what the plugin was started with, for the record of a run: without what only the wire needs, and nil when another process started it.
func (p *Process) Environment() []string { return p.environment }

// Transport is how sections get to the plugin: Stream, too, where memory can't be shared.
func (p *Process) Transport() Transport { return p.transport }

// PID is the process's number, 0 when another process started it.
func (p *Process) PID() int {
	if p.attached != nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Close ends the process and waits until it is gone; one that another process started goes on. It may be called more than once, also when the process has died.
func (p *Process) Close() error { return p.close() }

// closeGrace is how long a plugin may take to end when it is asked to.
const closeGrace = 5 * time.Second

func (p *Process) end() error {
	if p.client != nil {
		hung := time.AfterFunc(closeGrace, p.kill)
		p.client.Kill()
		hung.Stop()
	}
	if p.kill != nil {
		p.kill()
	}
	close(p.ended)
	p.thread.Wait()
	var errs []error
	if p.lifeline != nil {
		errs = append(errs, p.lifeline.Close(), p.lifelineOther.Close())
	}
	if p.ownArena {
		errs = append(errs, p.arena.Close())
	}
	errs = append(errs, p.removeSockets())
	return errors.Join(errs...)
}

func (p *Process) removeSockets() error {
	if p.sockets == "" {
		return nil
	}
	err := os.RemoveAll(p.sockets)
	p.sockets = ""
	return err
}
