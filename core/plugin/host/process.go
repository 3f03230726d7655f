package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"harness.invalid/core/arena"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/internal/pb"
)

// Spec says which plugin to start, and how.
type Spec struct {
	Kind plugin.Kind
	Name string   // in errors; the NAME of harness-backend-NAME
	Path string   // of the executable
	Args []string // without the executable's name

	// Env adds to or changes the environment that plugins get: NAME=value. See Environment.
	Env []string
	// Threads is the plugin's GOMAXPROCS; 0 means one per CPU.
	Threads int
	// Dir is the plugin's working folder; empty: the host's.
	Dir string

	// Transport is Memory when empty.
	Transport Transport
	// Arena is the memory that host and plugins share: sessions must be opened over sections of it. It stays the
	// host's, and outlives the process. Without one the process has an arena of its own, and the host's memory is
	// copied there and back around every call.
	Arena *arena.Arena

	// Address is where the plugin listens if another process runs it; then nothing is started. See Expose.
	Address Address

	// Files is the file or the folder that makes up the plugin. If it is pinned (see Pin) and has changed since, the
	// plugin is not started. Empty: not checked.
	Files string
	// Sandbox confines the plugin: Bubblewrap, or another program that starts it. Empty: it may do what its user may.
	Sandbox string
	// Stderr receives what the plugin prints, as it prints it, within bounds (passedLineBytes, passedRate); nil: discarded.
	Stderr   io.Writer
	Timeouts Timeouts
}

// threads is the plugin's GOMAXPROCS.
func (s *Spec) threads() int {
	if s.Threads == 0 {
		return runtime.NumCPU()
	}
	return s.Threads
}

// checked is the spec of what is started: of a plugin that is pinned, a copy of what was pinned.
func (s Spec) checked() (Spec, error) {
	if s.Files == "" {
		return s, nil
	}
	path, err := ofPin(s.Files)
	if err != nil || path == s.Files {
		return s, err
	}
	inCopy := func(word string) string {
		if rest, ok := strings.CutPrefix(word, s.Files); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
			return path + rest
		}
		return word
	}
	s.Path, s.Args = inCopy(s.Path), slices.Clone(s.Args)
	for i := range s.Args {
		s.Args[i] = inCopy(s.Args[i])
	}
	return s, nil
}

// Process is a running plugin. Backend or Optimizer uses it; Close ends it.
//
// start.go starts it, end.go ends it, and environment.go builds what it inherits.
type Process struct {
	spec        Spec
	transport   Transport
	environment []string
	words       *lastWords
	sockets     string       // folder of the plugin's socket, "" once it is removed
	unsocket    func() error // removes it

	// attached is the connection to a plugin that another process runs. Of the fields below it then has only the
	// clients of its services and kill.
	attached *grpc.ClientConn

	cmd    *exec.Cmd
	child  *child // of cmd, with the processes that it starts
	tls    *tls.Config
	client *goplugin.Client
	kill   func() // kills the processes at once; nil: there are none yet
	// Only the host holds this end of the lifeline open; the process reads the other.
	lifeline, lifelineOther *os.File
	ended                   chan struct{} // closed by Close: releases the thread that the process was started from
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
	if spec, err = spec.checked(); err != nil {
		return nil, err
	}
	spec.Timeouts = spec.Timeouts.withDefaults()
	p := &Process{spec: spec, words: newLastWords(spec.Stderr), ended: make(chan struct{})}
	p.close = sync.OnceValue(p.shutDown)
	defer func() {
		if err != nil {
			p.end(0) // one that hangs would not end when asked to
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.prepare(); err != nil {
		return nil, err
	}
	cause := fmt.Errorf("no answer within %v, so it was killed: %w", spec.Timeouts.Start, ErrDied)
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Timeouts.Start, cause)
	defer cancel()
	conn, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	p.serveCalls(conn)
	if err := p.greet(ctx); err != nil {
		return nil, err
	}
	// The connection stands and no other will be made. A socket without a name cannot be left behind.
	return p, p.removeSockets()
}

// serveCalls makes the clients of the plugin's services.
func (p *Process) serveCalls(conn grpc.ClientConnInterface) {
	p.backend, p.optimizer, p.sections = pb.NewBackendClient(conn), pb.NewOptimizerClient(conn), pb.NewSectionsClient(conn)
}

// Environment is what the plugin was started with, for the record of a run, without the variables that only the wire
// needs. It is nil if another process started the plugin.
func (p *Process) Environment() []string { return p.environment }

// Transport is how sections reach the plugin: Stream, too, where memory cannot be shared.
func (p *Process) Transport() Transport { return p.transport }

// PID is the process's number, 0 if another process started it.
func (p *Process) PID() int {
	if p.attached != nil {
		return 0
	}
	return p.cmd.Process.Pid
}
