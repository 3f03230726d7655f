package host

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"harness.invalid/core/tensor"
)

// How long a call may take follows from its work, in operations, see session. A call of a kind that was made before may
// take hangFactor times as long as the slowest of the last ones of its session did for as much work, and Timeouts.Floor.
// The factor covers other load on the machine and steps that differ, such as those before which a device moves memory.
// Before so many calls, in which programs are compiled, there is no measure, and only a ceiling holds; see ceiling.
const (
	hangFactor   = 20
	hangMeasured = 3  // calls before their times count
	hangWindow   = 32 // last calls that count
)

// The ceiling covers what is slower than what anybody would wait for: a device of a billion operations a second, which is
// a scalar loop on one core, and a compiler that takes Timeouts.Open, or Timeouts.Step where it runs in the first steps, and
// as long again for each hundred million parameters.
const (
	slowestDevice     = 1e9
	compiledInTimeout = 1e8
)

// ceiling is how long a call may take whatever is known of those before it: base for compiling a model of so many
// parameters, and the time of its work on the slowest device.
func ceiling(base time.Duration, parameters int, work float64) time.Duration {
	seconds := base.Seconds()*(1+float64(parameters)/compiledInTimeout) + work/slowestDevice
	return time.Duration(math.Min(seconds, forever.Seconds()) * float64(time.Second))
}

// Operations of a call. A token takes two for each parameter on its way forward, and as many again for the gradients of its
// inputs and of its parameters. An update may orthogonalise each matrix, which is the most that a rule in use does: five
// iterations of six products of its smaller side for each element, as in muon.
const (
	forwardOperations = 2
	stepOperations    = 6
	commitOperations  = 10
	updateOperations  = 30
)

// updateWork are the operations of an update at most.
func updateWork(l *tensor.Layout) float64 {
	work := 0.0
	for _, t := range l.Tensors() {
		side := 1
		if len(t.Shape) > 1 {
			side = slices.Min(t.Shape)
		}
		work += updateOperations * float64(t.Len()) * float64(side)
	}
	return work
}

// paces are what the last calls of a session took for an operation, in seconds, by kind.
type paces struct {
	mu   sync.Mutex
	last map[string][]float64
}

// add notes how long so much work took.
func (p *paces) add(kind string, took time.Duration, work float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string][]float64{}
	}
	list := append(p.last[kind], took.Seconds()/work)
	p.last[kind] = list[max(0, len(list)-hangWindow):]
}

// limit is how long so much work may take.
func (p *paces) limit(kind string, t Timeouts, parameters int, work float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := ceiling(t.Step, parameters, work)
	list := p.last[kind]
	if len(list) < hangMeasured {
		return most
	}
	seconds := math.Min(hangFactor*slices.Max(list)*work, forever.Seconds())
	return min(max(time.Duration(seconds*float64(time.Second)), t.Floor), most)
}

// owed is what a plugin was asked in a call and has not answered, in units of so many operations.
type owed struct {
	mu    sync.Mutex
	s     *session
	kind  string
	unit  float64
	units int
	since time.Time // of the last answer, or the call
}

// timed begins a call of a kind that a session makes again and again. What is asked is a number of units, such as tokens, of
// so many operations; the limit of the call grows with it.
func (s *session) timed(ctx context.Context, kind string, unit float64, what string, args ...any) *call {
	c := s.p.call(ctx, s.id, s.paces.limit(kind, s.p.spec.Timeouts, s.parameters, 0), what, args...)
	c.owed = &owed{s: s, kind: kind, unit: unit, since: c.began}
	return c
}

// asked says that the plugin was given more work.
func (c *call) asked(units int) {
	c.owed.mu.Lock()
	defer c.owed.mu.Unlock()
	c.owed.units += units
	c.allow()
}

// answered says that the plugin did some of its work, and how long it took is a measure for what follows.
func (c *call) answered(units int) {
	c.owed.mu.Lock()
	defer c.owed.mu.Unlock()
	c.owed.paid(units)
	c.allow()
}

// paid notes how long so many units took, or all that are left.
func (o *owed) paid(units int) {
	if units = min(units, o.units); units <= 0 {
		return
	}
	now := time.Now()
	o.s.paces.add(o.kind, now.Sub(o.since), float64(units)*o.unit)
	o.units, o.since = o.units-units, now
}

// allow sets the limit of the call, and begins a tick of the new length.
func (c *call) allow() {
	o := c.owed
	limit := o.s.paces.limit(o.kind, o.s.p.spec.Timeouts, o.s.parameters, float64(o.units)*o.unit)
	if was := c.limit.Swap(int64(limit)); was != int64(limit) {
		c.timer.Reset(limit / callTicks)
	}
}

// parametersOf is their number, 0 without a layout, which is an error elsewhere.
func parametersOf(l *tensor.Layout) int {
	if l == nil {
		return 0
	}
	return l.Len()
}
