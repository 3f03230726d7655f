package host

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// drainGrace is how long the output of a process is still read after its end. All that it printed lies in the pipes by
// then, and they end at once unless a process that left its group holds them open.
const drainGrace = time.Second

var errNotStarted = errors.New("killed before it was started")

// child is the process of a plugin, with all processes that it started, as far as they stay in its process group: they
// end together. Where there are no process groups it is the process alone. It implements go-plugin's Runner, whose own
// waits for the pipes of a process before it waits for the process, so that whoever holds a pipe holds up the host.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr *os.File      // the host's ends
	ended          chan struct{} // closed when the process is gone, and its group with it
	err            error         // of Wait

	mu     sync.Mutex
	killed bool // it must not be started any more
	lives  bool // from the start until the process is reaped: its number is its own
}

var _ runner.Runner = (*child)(nil)

func newChild(cmd *exec.Cmd) *child {
	cmd.SysProcAttr = processAttributes()
	return &child{cmd: cmd, ended: make(chan struct{})}
}

// Start implements runner.Runner.
func (c *child) Start(context.Context) (err error) {
	var outer, errer *os.File // the process's ends
	if c.stdout, outer, err = os.Pipe(); err != nil {
		return err
	}
	if c.stderr, errer, err = os.Pipe(); err != nil {
		_, _ = c.stdout.Close(), outer.Close()
		return err
	}
	// Being files, they are handed on as they are: cmd.Wait waits for the process and for nothing else.
	c.cmd.Stdout, c.cmd.Stderr = outer, errer
	err = c.launch()
	_, _ = outer.Close(), errer.Close()
	if err != nil {
		_, _ = c.stdout.Close(), c.stderr.Close()
		return err
	}
	go c.watch()
	return nil
}

func (c *child) launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errNotStarted
	}
	err := c.cmd.Start()
	c.lives = err == nil
	return err
}

// watch waits for the process alone, ends what is left of its group, and bounds how long the pipes are read.
func (c *child) watch() {
	c.err = c.reap()
	close(c.ended)
	for _, pipe := range []*os.File{c.stdout, c.stderr} {
		if pipe.SetReadDeadline(time.Now().Add(drainGrace)) != nil {
			time.AfterFunc(drainGrace, func() { _ = pipe.Close() }) // a pipe without deadlines
		}
	}
}

// kill ends the process and its group at once, or keeps it from being started. It may be called at any time.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.lives {
		killGroup(c.cmd.Process)
	}
}

// Wait implements runner.Runner: go-plugin calls it when both pipes have ended.
func (c *child) Wait(context.Context) error {
	<-c.ended
	_, _ = c.stdout.Close(), c.stderr.Close()
	return c.err
}

// Kill implements runner.Runner.
func (c *child) Kill(context.Context) error {
	c.kill()
	return nil
}

// Stdout implements runner.Runner.
func (c *child) Stdout() io.ReadCloser { return &scanned{File: c.stdout} }

// Stderr implements runner.Runner.
func (c *child) Stderr() io.ReadCloser { return c.stderr }

// Name implements runner.Runner.
func (c *child) Name() string { return c.cmd.Path }

// ID implements runner.Runner. go-plugin takes "" for a process that was not started.
func (c *child) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(c.cmd.Process.Pid)
}

// Diagnose implements runner.Runner. The host explains failed starts itself.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// scanned is the standard output of a process as go-plugin reads it: it looks for the handshake with a bufio.Scanner,
// which gives up at a line of 64 KiB and would leave the process blocked in its next write. Nothing but the handshake is
// used, so long lines may be broken.
type scanned struct {
	*os.File
	line int // bytes since the last end of a line
}

// Read implements io.Reader.
func (s *scanned) Read(b []byte) (int, error) {
	n, err := s.File.Read(b)
	if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
		s.line = n - 1 - i
	} else if s.line += n; n > 0 && s.line >= bufio.MaxScanTokenSize/2 {
		b[n-1], s.line = '\n', 0
	}
	return n, err
}
