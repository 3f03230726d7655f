package inference

import (
	"context"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// clock is a clock that only its system moves.
type clock struct{ now time.Duration }

func (c *clock) Now() time.Duration { return c.now }

func (c *clock) Sleep(_ context.Context, until time.Duration) error {
	c.now = max(c.now, until)
	return nil
}

// machine answers a batch in a time that grows with it, and sometimes takes longer.
type machine struct {
	*clock
	first, more time.Duration // of the first sample of a batch, and of each other one
	slowEvery   int
	slow        time.Duration
	calls       int
	batches     []int
	samples     []int
}

func (m *machine) Answer(_ context.Context, samples []int) error {
	m.calls++
	m.batches = append(m.batches, len(samples))
	m.samples = append(m.samples, samples...)
	m.now += m.first + time.Duration(len(samples)-1)*m.more
	if m.slowEvery > 0 && m.calls%m.slowEvery == 0 {
		m.now += m.slow
	}
	return nil
}

func run(t *testing.T, s Settings, m *machine) *Result {
	t.Helper()
	m.clock = &clock{}
	r, err := Run(t.Context(), s, m, m.clock)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPassing: the published numbers of queries, and the binomial sum in exact arithmetic.
func TestPassing(t *testing.T) {
	// mlcommons/inference, mlperf.conf: MultiStream.min_query_count 662; the rules' 64 queries of single-stream.
	if n := passing(1, 0.99) + 1; n != 662 {
		t.Errorf("multi-stream takes %d queries, want 662", n)
	}
	if n := passing(1, 0.90) + 1; n != 64 {
		t.Errorf("single-stream takes %d queries, want 64", n)
	}
	for _, p := range []float64{0.9, 0.97, 0.99} {
		for over := range 8 {
			h := passing(over, p)
			if at, before := few(h, over, p), few(h-1, over, p); at >= 0.01 || before < 0.01 {
				t.Errorf("%d slow queries at %g: %d others, the chance is %g there and %g before, want it to cross 0.01", over, p, h, at, before)
			}
		}
	}
}

// few is the chance of at most over of h + over queries above a bound that each is within with chance p.
func few(h, over int, p float64) float64 {
	sum := 0.0
	n := int64(h + over)
	for k := range int64(over + 1) {
		c, _ := new(big.Float).SetInt(new(big.Int).Binomial(n, k)).Float64()
		sum += c * math.Pow(1-p, float64(k)) * math.Pow(p, float64(n-k))
	}
	return sum
}

// TestDiscarded: as many as the load generator's loop finds.
func TestDiscarded(t *testing.T) {
	for _, p := range []float64{0.9, 0.99} {
		for _, n := range []int{1, 63, 64, 65, 200, 661, 662, 1000, 3000} {
			want := 0
			if n >= passing(1, p)+1 {
				want = 1
				for i := 2; i < n+1; i++ {
					if n < passing(i, p)+i {
						want = i - 1
						break
					}
				}
			}
			if got := discarded(n, p); got != want {
				t.Errorf("of %d queries at %g %d may be left out, want %d", n, p, got, want)
			}
		}
	}
}

func TestSingleStream(t *testing.T) {
	m := &machine{first: 10 * time.Millisecond, slowEvery: 20, slow: 90 * time.Millisecond}
	r := run(t, Settings{Scenario: SingleStream, Duration: 2 * time.Second, Samples: 7, Batch: 4}, m)
	if !r.Valid || r.Queries != r.Samples || math.Abs(r.SamplesPerSecond-float64(r.Samples)/r.Seconds) > 1e-9 || r.Seconds < 2 {
		t.Errorf("result is %+v", r)
	}
	if l := r.Latency; l.P50 != 10 || l.P90 != 10 || l.P99 != 100 || l.P999 != 100 || math.Abs(l.Mean-14.5) > 0.2 {
		t.Errorf("latencies are %+v, want 10 ms, and 100 for every 20th", l)
	}
	if slices.Max(m.batches) != 1 || slices.Max(m.samples) != 6 || slices.Min(m.samples) != 0 {
		t.Errorf("batches up to %d, samples %d to %d", slices.Max(m.batches), slices.Min(m.samples), slices.Max(m.samples))
	}
	if n := len(m.batches); r.Target.EstimateMS != 10 && n > 400 || r.Target.Percentile != 90 {
		t.Errorf("target is %+v after %d queries", r.Target, n)
	}
	if !strings.Contains(r.Why, "MLPerf's rules want 10m0s") {
		t.Errorf("why is %q", r.Why)
	}
}

// TestTooFew: a system so slow that the limit ends the run.
func TestTooFew(t *testing.T) {
	for _, scenario := range []Scenario{SingleStream, MultiStream} {
		r := run(t, Settings{Scenario: scenario, Duration: time.Second, Samples: 7, Batch: 8}, &machine{first: time.Second})
		if r.Valid || r.Queries != 4 || !strings.Contains(r.Why, "4 queries are too few") {
			t.Errorf("%s: %+v", scenario, r)
		}
	}
}

func TestMultiStream(t *testing.T) {
	m := &machine{first: 3 * time.Millisecond, more: time.Millisecond}
	r := run(t, Settings{Scenario: MultiStream, Duration: time.Second, Limit: time.Minute, Samples: 20, Batch: 6}, m)
	// Eight samples are a batch of six and one of two: 3 + 5 + 3 + 1 ms.
	if !r.Valid || r.Latency.P50 != 12 || r.Queries != 662 || r.Samples != 8*662 {
		t.Errorf("result is %+v", r)
	}
	if want := []int{6, 2}; !slices.Equal(m.batches[:2], want) {
		t.Errorf("batches are %v, want %v", m.batches[:2], want)
	}
	if (m.samples[7]-m.samples[0]+20)%20 != 7 {
		t.Errorf("samples of a query are %v, want eight in a row", m.samples[:8])
	}
}

// TestServer: a queue with constant service time, whose mean wait has a formula.
func TestServer(t *testing.T) {
	const qps, service = 50, 10 * time.Millisecond
	r := run(t, Settings{Scenario: Server, Duration: 400 * time.Second, Samples: 9, Batch: 1, QPS: qps, Bound: 80 * time.Millisecond},
		&machine{first: service})
	// Pollaczek and Khinchine: at half the load, a wait of half a service, and the service.
	if got := r.Latency.Mean; math.Abs(got-15) > 0.5 {
		t.Errorf("mean latency is %g ms, want about 15", got)
	}
	if got := float64(r.Queries) / r.Seconds; math.Abs(got-qps) > 1.5 {
		t.Errorf("%g queries a second came, want about %d", got, qps)
	}
	if !r.Valid || r.Target.BoundMS != 80 {
		t.Errorf("result is %+v, target %+v", r, r.Target)
	}
	slow := run(t, Settings{Scenario: Server, Duration: 20 * time.Second, Samples: 9, Batch: 1, QPS: 120, Bound: 80 * time.Millisecond},
		&machine{first: service})
	if slow.Valid || !strings.Contains(slow.Why, "took longer than 80ms") {
		t.Errorf("more queries than it can answer: %+v", slow)
	}
	m := &machine{first: service, more: time.Millisecond}
	batched := run(t, Settings{Scenario: Server, Duration: 20 * time.Second, Samples: 9, Batch: 8, QPS: 120, Bound: 80 * time.Millisecond}, m)
	if !batched.Valid || slices.Max(m.batches) < 2 || slices.Max(m.batches) > 8 {
		t.Errorf("in batches up to %d: %+v", slices.Max(m.batches), batched)
	}
}

// TestArrivals: intervals are exponential, and the same each time.
func TestArrivals(t *testing.T) {
	l := &load{Settings: Settings{Scenario: Server, QPS: 100, Duration: 100 * time.Second, Limit: time.Hour}}
	at := l.schedule()
	var sum, squares float64
	for i := 1; i < len(at); i++ {
		d := (at[i] - at[i-1]).Seconds()
		sum += d
		squares += d * d
	}
	n := float64(len(at) - 1)
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(mean-0.01) > 3e-4 || math.Abs(deviation/mean-1) > 0.03 {
		t.Errorf("intervals have mean %g and deviation %g, want 0.01 and the same", mean, deviation)
	}
	if !slices.Equal(at, l.schedule()) {
		t.Error("times differ from draw to draw")
	}
}

func TestOffline(t *testing.T) {
	m := &machine{first: 8 * time.Millisecond, more: time.Millisecond}
	r := run(t, Settings{Scenario: Offline, Duration: time.Second, Samples: 5, Batch: 8}, m)
	// Batches of 8 take 15 ms: 67 of them fill a second.
	if !r.Valid || r.Samples != 8*67 || math.Abs(r.SamplesPerSecond-8/0.015) > 1e-6 || r.Latency.P50 != 510 {
		t.Errorf("result is %+v", r)
	}
	if want := []int{0, 1, 2, 3, 4, 0, 1, 2, 3}; !slices.Equal(m.samples[:9], want) {
		t.Errorf("samples are %v, want %v", m.samples[:9], want)
	}
	slow := Settings{Scenario: Offline, Duration: RulesDuration, Limit: time.Hour, Samples: 5, Batch: 1}
	rules := run(t, slow, &machine{first: 100 * time.Millisecond})
	if !rules.Valid || rules.Samples != 10833 || rules.Why != "" {
		t.Errorf("a slow system by the rules: %+v, want 10833 samples", rules)
	}
	slow.Limit = RulesDuration
	short := run(t, slow, &machine{first: time.Second})
	if short.Valid || !strings.Contains(short.Why, "600 samples are too few, want at least 10833") {
		t.Errorf("a slower one: %+v", short)
	}
}

// TestMeanAboveP99 says why.
func TestMeanAboveP99(t *testing.T) {
	r := run(t, Settings{Scenario: SingleStream, Duration: time.Second, Samples: 5, Batch: 1},
		&machine{first: time.Millisecond, slowEvery: 150, slow: time.Second})
	if r.Latency.Mean <= r.Latency.P99 || !strings.Contains(r.Why, "the mean latency is above p99: 1 of 150 queries took longer") {
		t.Errorf("mean %g, p99 %g, why %q", r.Latency.Mean, r.Latency.P99, r.Why)
	}
}

// TestJSON: names and kinds of the fields that others read.
func TestJSON(t *testing.T) {
	text, err := json.Marshal(run(t, Settings{Scenario: Offline, Duration: time.Second, Samples: 5, Batch: 8},
		&machine{first: time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scenario string             `json:"scenario"`
		Rate     float64            `json:"samples_per_second"`
		Latency  map[string]float64 `json:"latency_ms"`
		Valid    *bool              `json:"valid"`
		Why      *string            `json:"why"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Scenario != "offline" || got.Rate <= 0 || got.Valid == nil || got.Why == nil || len(got.Latency) != 7 {
		t.Errorf("JSON is %s", text)
	}
	for _, name := range []string{"mean", "p50", "p90", "p95", "p97", "p99", "p99.9"} {
		if got.Latency[name] <= 0 {
			t.Errorf("latency %s is missing in %s", name, text)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	good := Settings{Scenario: Server, Duration: time.Second, Samples: 1, Batch: 1, QPS: 1}
	for want, change := range map[string]func(*Settings){
		`no scenario is named "sever", did you mean server`: func(s *Settings) { s.Scenario = "sever" },
		"there are no samples":                              func(s *Settings) { s.Samples = 0 },
		"batch is 0":                                        func(s *Settings) { s.Batch = 0 },
		"duration is 0s":                                    func(s *Settings) { s.Duration = 0 },
		"limit is 1ms":                                      func(s *Settings) { s.Limit = time.Millisecond },
		"queries a second":                                  func(s *Settings) { s.QPS = 0 },
	} {
		s := good
		change(&s)
		if _, err := Run(t.Context(), s, &machine{clock: &clock{}}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
