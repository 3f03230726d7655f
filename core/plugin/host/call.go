package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"harness.invalid/core/backend"
	"harness.invalid/core/plugin/internal/pb"
)

// call is a running call to a plugin.
type call struct {
	p       *Process
	what    string       // in errors: step 12
	session uint64       // 0: none
	limit   atomic.Int64 // time.Duration
	parent  context.Context
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	ticks   atomic.Int32 // of the timer that are left
	owed    *owed        // nil: the limit stays as it is
	mark    int
	began   time.Time
}

// callTicks is how often the timer of a call runs out before the call counts as hung. If this program was suspended
// meanwhile, it runs out once and not as often as it would have: the plugin, which goes on or was suspended as well, has
// the rest of its time.
const callTicks = 8

// errHung is the cause of a context whose call took too long.
var errHung = errors.New("no answer")

// call begins a call that may take as long as limit, or after progress again.
func (p *Process) call(ctx context.Context, session uint64, limit time.Duration, what string, args ...any) *call {
	c := &call{p: p, what: fmt.Sprintf(what, args...), session: session, parent: ctx, mark: p.words.mark(), began: time.Now()}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.limit.Store(int64(limit))
	c.ticks.Store(callTicks)
	c.timer = time.AfterFunc(math.MaxInt64, c.tick)
	c.timer.Reset(limit / callTicks)
	return c
}

func (c *call) tick() {
	switch {
	case c.ctx.Err() != nil: // the call is over
	case c.ticks.Add(-1) <= 0:
		c.cancel(errHung)
	default:
		c.timer.Reset(c.allowed() / callTicks)
	}
}

// allowed is how long the call may take.
func (c *call) allowed() time.Duration { return time.Duration(c.limit.Load()) }

// progress says that the plugin is alive.
func (c *call) progress() { c.ticks.Store(callTicks) }

// done ends the call. A call that the caller cancelled may still run in the plugin and write to shared memory: done
// waits until it does not. After a call that took too long the process is killed for the same reason.
func (c *call) done(err error) error {
	c.timer.Stop()
	hung := errors.Is(context.Cause(c.ctx), errHung)
	c.cancel(nil)
	switch {
	case err == nil:
		if c.owed != nil {
			c.owed.paid(math.MaxInt)
		}
		return nil
	case hung:
		c.p.end(0)
		err = c.p.withLastWords(fmt.Errorf("no answer within %v, so it was killed: %w", c.allowed().Round(10*time.Millisecond), ErrDied), 0)
	default:
		if c.session != 0 && !c.p.Exited() {
			c.settle()
		}
		var local localError
		if errors.As(err, &local) {
			err = local.error
			break
		}
		err = c.p.translate(c.parent, c.allowed(), c.mark, err)
	}
	return fmt.Errorf("%s %s: %s: %w", c.p.spec.Kind, c.p.spec.Name, c.what, err)
}

// settleGrace is how long a plugin may keep working after its call was cancelled.
const settleGrace = 10 * time.Second

// settle waits until no call of the session is running, or kills the process.
func (c *call) settle() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.parent), settleGrace)
	defer cancel()
	_, err := c.p.sections.Settle(ctx, &pb.SettleRequest{Session: c.session})
	if status.Code(err) == codes.DeadlineExceeded {
		c.p.end(0)
	}
}

// localError is an error found on this side: in the host's batches, or in what the plugin answered.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// translate turns the error of a gRPC call into one that people and callers understand.
func (p *Process) translate(ctx context.Context, limit time.Duration, mark int, err error) error {
	switch ctx.Err() {
	case context.Canceled:
		return context.Canceled
	case context.DeadlineExceeded:
		return p.withLastWords(context.Cause(ctx), mark)
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable:
		reason := ErrDied
		p.awaitExit()
		if status := p.exitStatus(); status != "" {
			return p.withLastWords(fmt.Errorf("%w (%s)", reason, status), 0)
		}
		return p.withLastWords(fmt.Errorf("%w or closed the connection: %s", reason, s.Message()), 0)
	case codes.DeadlineExceeded:
		return p.withLastWords(fmt.Errorf("no answer within %v", limit), 0)
	case codes.ResourceExhausted:
		return p.withLastWords(remoteError{s.Message(), backend.ErrOutOfMemory}, mark)
	case codes.Unimplemented:
		return p.withLastWords(remoteError{s.Message(), backend.ErrUnsupported}, mark)
	}
	return p.withLastWords(errors.New(s.Message()), mark)
}

// remoteError is an error of the plugin whose meaning survived the wire.
type remoteError struct {
	message string
	is      error
}

func (e remoteError) Error() string { return e.message }
func (e remoteError) Unwrap() error { return e.is }

// withLastWords adds what the plugin printed after a mark.
func (p *Process) withLastWords(err error, mark int) error {
	lines := p.words.since(mark)
	if len(lines) == 0 {
		return err
	}
	return fmt.Errorf("%w\n  the end of its stderr:\n    %s", err, strings.Join(lines, "\n    "))
}
