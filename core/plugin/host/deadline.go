package host

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A call of a kind that was made before may take hangFactor times as long as the longest of the last calls of that kind in
// its session, within Timeouts.Floor and Timeouts.Step. The factor covers other load on the machine and steps that differ,
// such as those before which a device moves memory; before so many calls, in which programs are compiled, there is no
// measure.
const (
	hangFactor   = 20
	hangMeasured = 3  // calls before their times count
	hangWindow   = 32 // last calls that count
)

// durations are those of the last calls of a session, by kind.
type durations struct {
	mu   sync.Mutex
	last map[string][]time.Duration
}

// add notes how long a call took.
func (d *durations) add(kind string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = map[string][]time.Duration{}
	}
	list := append(d.last[kind], took)
	d.last[kind] = list[max(0, len(list)-hangWindow):]
}

// limit is how long the next call may take.
func (d *durations) limit(kind string, t Timeouts) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.last[kind]
	if len(list) < hangMeasured {
		return t.Step
	}
	return min(max(hangFactor*slices.Max(list), t.Floor), t.Step)
}

// timed begins a call of a kind that a session makes in every step.
func (s *session) timed(ctx context.Context, kind, what string, args ...any) *call {
	c := s.p.call(ctx, s.id, s.durations.limit(kind, s.p.spec.Timeouts), what, args...)
	c.timing = func(took time.Duration) { s.durations.add(kind, took) }
	return c
}
