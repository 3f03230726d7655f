package inference

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// System answers samples, one batch at a time.
type System interface {
	// Answer computes the samples with some indices, at most Settings.Batch of them, as one batch.
	Answer(ctx context.Context, samples []int) error
}

// Clock tells the time. Tests have one of their own.
type Clock interface {
	Now() time.Duration // since some moment
	Sleep(ctx context.Context, until time.Duration) error
}

// wall is the clock on the wall.
type wall struct{ start time.Time }

func (w wall) Now() time.Duration { return time.Since(w.start) }

func (w wall) Sleep(ctx context.Context, until time.Duration) error {
	t := time.NewTimer(until - w.Now())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Run lets a system answer queries, and measures it. clock may be nil.
func Run(ctx context.Context, s Settings, system System, clock Clock) (*Result, error) {
	if err := s.fill(); err != nil {
		return nil, err
	}
	if clock == nil {
		clock = wall{time.Now()}
	}
	l := &load{Settings: s, system: system, clock: clock, start: clock.Now(), chosen: rand.NewPCG(sampleSeed, 0)}
	var err error
	switch s.Scenario {
	case Server:
		err = l.serve(ctx)
	case Offline:
		err = l.all(ctx)
	default:
		err = l.stream(ctx)
	}
	if err != nil {
		return nil, err
	}
	l.took = clock.Now() - l.start
	return l.result(), nil
}

// load is a run.
type load struct {
	Settings
	system System
	clock  Clock
	start  time.Duration
	chosen *rand.PCG // samples

	latencies []time.Duration // of queries
	samples   int             // answered
	scheduled time.Duration   // when the last query was issued, or was to be
	took      time.Duration
	why       []string // see Result.Why
}

// draw is the next sample of a query, any of all with the same chance.
func (l *load) draw() int {
	return int(l.chosen.Uint64() % uint64(l.Samples))
}

// stream issues a query as soon as the one before is answered.
func (l *load) stream(ctx context.Context) error {
	enough := passing(1, l.percentile()) + 1
	query := make([]int, l.samplesPerQuery())
	for {
		at := l.clock.Now()
		if l.scheduled = at - l.start; l.scheduled >= l.Limit || l.scheduled >= l.Duration && len(l.latencies) >= enough {
			return nil
		}
		first := l.draw()
		for i := range query {
			query[i] = (first + i) % l.Samples // those of a query follow each other
		}
		if err := l.answer(ctx, query); err != nil {
			return err
		}
		l.latencies = append(l.latencies, l.clock.Now()-at)
	}
}

// answer answers samples in batches.
func (l *load) answer(ctx context.Context, samples []int) error {
	for part := range slices.Chunk(samples, l.Batch) {
		if err := l.system.Answer(ctx, part); err != nil {
			return err
		}
		l.samples += len(part)
	}
	return nil
}

// serve answers queries that come at random times: those that wait, together.
func (l *load) serve(ctx context.Context) error {
	arrivals := l.schedule()
	for next := 0; next < len(arrivals); {
		now := l.clock.Now() - l.start
		if now >= l.Limit {
			return nil
		}
		if arrivals[next] > now {
			if err := l.clock.Sleep(ctx, l.start+arrivals[next]); err != nil {
				return err
			}
			continue
		}
		waiting := next
		var batch []int
		for ; waiting < len(arrivals) && arrivals[waiting] <= now && len(batch) < l.Batch; waiting++ {
			batch = append(batch, l.draw())
		}
		if err := l.answer(ctx, batch); err != nil {
			return err
		}
		done := l.clock.Now() - l.start
		for ; next < waiting; next++ {
			l.latencies = append(l.latencies, done-arrivals[next])
			l.scheduled = arrivals[next]
		}
	}
	return nil
}

// schedule draws the times of the queries of server: intervals of an exponential distribution, until the duration is
// full, and there are as many queries as a run without a slow one takes.
func (l *load) schedule() []time.Duration {
	var arrivals []time.Duration
	enough := passing(0, l.percentile())
	at, drawn := 0.0, rand.NewPCG(scheduleSeed, 0)
	for len(arrivals) < enough || arrivals[len(arrivals)-1] < l.Duration {
		t := time.Duration(at * float64(time.Second))
		if t > l.Limit {
			break
		}
		arrivals = append(arrivals, t)
		u := float64(drawn.Uint64()>>11) / (1 << 53) // below 1
		at -= math.Log(1-u) / l.QPS
	}
	return arrivals
}

// all answers samples that come at once: as many as fill the duration, and with the rules' duration at least the rules'
// number. The set is repeated in its order.
func (l *load) all(ctx context.Context) error {
	batch := make([]int, 0, l.Batch)
	for i := 0; ; {
		now := l.clock.Now() - l.start
		if now >= l.Limit || now >= l.Duration && (l.Duration < RulesDuration || i >= offlineCount) {
			return nil
		}
		batch = batch[:0]
		for ; len(batch) < l.Batch; i++ {
			batch = append(batch, i%l.Samples)
		}
		if err := l.answer(ctx, batch); err != nil {
			return err
		}
		done := l.clock.Now() - l.start
		for range batch {
			l.latencies = append(l.latencies, done)
		}
	}
}

// result is what the run shows.
func (l *load) result() *Result {
	r := l.measured()
	r.Why = strings.Join(l.why, "; ")
	return r
}

func (l *load) measured() *Result {
	r := &Result{Scenario: l.Scenario, Queries: len(l.latencies), Samples: l.samples, Seconds: l.took.Seconds()}
	if len(l.latencies) == 0 {
		l.why = append(l.why, "no query was answered")
		return r
	}
	r.SamplesPerSecond = float64(l.samples) / l.took.Seconds()
	slices.Sort(l.latencies)
	r.Latency = latencies(l.latencies)
	r.Valid = true
	l.judge(r)
	if l.Duration < RulesDuration {
		l.why = append(l.why, fmt.Sprintf("a run of %s, where MLPerf's rules want %s", l.Duration, RulesDuration))
	}
	if r.Latency.Mean > r.Latency.P99 {
		slow := len(l.latencies) - sortSearch(l.latencies, r.Latency.Mean)
		l.why = append(l.why, fmt.Sprintf("the mean latency is above p99: %d of %d queries took longer than the mean, the slowest %.3g ms",
			slow, len(l.latencies), ms(l.latencies[len(l.latencies)-1])))
	}
	return r
}

// judge holds the run against the load generator's conditions.
func (l *load) judge(r *Result) {
	fail := func(format string, args ...any) {
		r.Valid = false
		l.why = append(l.why, fmt.Sprintf(format, args...))
	}
	n, p := len(l.latencies), l.percentile()
	if reached := map[bool]time.Duration{true: l.took, false: l.scheduled}[l.Scenario == Offline]; reached < l.Duration {
		fail("it ended after %s, before the duration of %s", reached.Round(time.Millisecond), l.Duration)
	}
	switch l.Scenario {
	case Server:
		r.Target = &Target{Percentile: 100 * p, BoundMS: ms(l.Bound), QueriesPerSecond: l.QPS}
		over := n - sortSearch(l.latencies, ms(l.Bound))
		r.Target.Over = over
		if need := passing(over, p) + over; n < need {
			fail("%d of %d queries took longer than %s: early stopping needs %d queries with so many for %g%%", over, n, l.Bound, need, 100*p)
		}
	case SingleStream, MultiStream:
		left := discarded(n, p)
		if left == 0 {
			fail("%d queries are too few: early stopping needs %d for p%g", n, passing(1, p)+1, 100*p)
			return
		}
		r.Target = &Target{Percentile: 100 * p, EstimateMS: ms(l.latencies[n-left])}
	case Offline:
		if l.Duration >= RulesDuration && n < offlineCount {
			fail("%d samples are too few, want at least %d", n, offlineCount)
		}
	}
}
