package regression

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
	"harness.invalid/results/verdict"
)

// plant is a change to what a run records.
type plant struct {
	kernels string                    // "": amd64/avx512
	cpu     string                    // "": cpu
	batches string                    // added to the digest of the batches
	loss    func(step int) float64    // factor
	f1      func(seed uint64) float64 // added
	slow    float64                   // factor of times; 0: 1
	fail    bool                      // the run failed
	seeds   []uint64                  // nil: 1 to 5
	start   string                    // digest of the start model
}

// plantRuns records runs of scratch's last phase. Losses, F1 and times have a little noise from the seed.
func plantRuns(t *testing.T, r *recipe.Recipe, p plant) []*results.Run {
	t.Helper()
	if p.seeds == nil {
		p.seeds = []uint64{1, 2, 3, 4, 5}
	}
	if p.kernels == "" {
		p.kernels = "amd64/avx512"
	}
	var runs []*results.Run
	for _, seed := range p.seeds {
		rng := rand.New(rand.NewPCG(seed, uint64(len(p.kernels))))
		dir := filepath.Join(t.TempDir(), fmt.Sprint(seed))
		id := results.Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: "d", Backend: "ipu", Precision: "fp16.16",
			Optimizer: "adamw", Seed: seed, Start: p.start}
		w, err := results.Create(dir, id, r, results.Environment{CPU: "cpu" + p.cpu, Threads: 2, Kernels: p.kernels})
		if err != nil {
			t.Fatal(err)
		}
		slow := max(p.slow, 1) * (1 + 0.01*rng.NormFloat64())
		for n := 1; n <= 64; n++ {
			loss := 4 - 0.02*float64(n) + 0.01*float64(seed)
			if p.loss != nil {
				loss *= p.loss(n)
			}
			if err := w.Step(results.Step{Phase: "squad", Step: n, Metrics: results.Metrics{"loss": loss}, Finite: true,
				MeasuredSeconds: map[string]float64{results.TotalSeconds: 0.1 * slow}}); err != nil {
				t.Fatal(err)
			}
		}
		f1 := 86 + 0.5*rng.NormFloat64()
		if p.f1 != nil {
			f1 += p.f1(seed)
		}
		for i, v := range []float64{70, f1} {
			if err := w.Evaluation(results.Evaluation{Phase: "squad", Step: 32 * (i + 1), Metrics: results.Metrics{"f1": v}}); err != nil {
				t.Fatal(err)
			}
		}
		res := results.Result{Status: results.Complete, BatchDigest: "b" + p.batches}
		if p.fail {
			res.Status, res.Error = results.Failed, "it fell over"
		}
		res.AddPhase(results.PhaseResult{Name: "squad", Steps: 64, Metrics: results.Metrics{"f1": f1}})
		if err := w.Finish(res); err != nil {
			t.Fatal(err)
		}
		run, err := results.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	return runs
}

// soundBaseline is a baseline of sound runs, as it reads back from its file.
func soundBaseline(t *testing.T, r *recipe.Recipe) *Baseline {
	t.Helper()
	b, err := NewBaseline(plantRuns(t, r, plant{}), true)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "b.json")
	if err := b.Save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = ReadBaseline("b", text); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCheck(t *testing.T) {
	r := quick(t)
	b := soundBaseline(t, r)
	flip := func(step int) func(int) float64 {
		return func(n int) float64 {
			if n == step {
				return 1 + 0x1p-45
			}
			return 1
		}
	}
	factor := func(f float64) func(int) float64 { return func(int) float64 { return f } }
	lower := func(by float64) func(uint64) float64 { return func(uint64) float64 { return -by } }
	const other = "amd64/avx2"
	for _, c := range []struct {
		name     string
		now      plant
		standing Standing
		fact     string // one that stands so, and why
		why      string
	}{
		{"nothing", plant{}, Holds, "ipu/adamw squad.f1", "the same bits"},
		{"one loss in its last bits", plant{loss: flip(21)}, Regressed, "ipu/adamw seed 1 losses", "by squad step 24"},
		{"one bit in the data order", plant{batches: "'"}, Regressed, "ipu/adamw seed 3 batches", "different batches"},
		{"rounding on another path", plant{kernels: other, loss: factor(1 + 1e-6)}, Holds, "ipu/adamw seed 1 squad.losses", "on other kernels"},
		{"another constant on another path", plant{kernels: other, loss: func(n int) float64 { return 1 + 0.001*float64(n) }}, Regressed,
			"ipu/adamw seed 1 squad.losses", "part 16 of 16 differs by 6.2%"},
		{"less accurate", plant{kernels: other, f1: lower(5)}, Regressed, "ipu/adamw squad.f1", "worse by more than the tolerance"},
		{"more accurate", plant{kernels: other, f1: lower(-5)}, Holds, "ipu/adamw squad.f1", "no worse than the tolerance"},
		{"a little less accurate, with two seeds", plant{kernels: other, f1: func(s uint64) float64 { return -1 - 2*float64(s) + 3 },
			seeds: []uint64{1, 2}}, Undecided, "ipu/adamw squad.f1", "more seeds are needed"},
		{"10% slower", plant{slow: 1.1}, Regressed, "ipu/adamw squad.step_seconds", "worse by more than the tolerance"},
		{"2% slower", plant{slow: 1.02}, Holds, "ipu/adamw squad.step_seconds", "no worse"},
		{"slower on another machine", plant{slow: 2, cpu: "2"}, Holds, "", ""},
		{"another start model on another path", plant{kernels: other, loss: factor(1.1), start: "s"}, Holds, "ipu/adamw seed 1 squad.losses",
			"began from parameters that other kernels rounded"},
		{"less accurate from another start model", plant{kernels: other, f1: lower(5), start: "s"}, Undecided, "ipu/adamw squad.f1",
			"start from another model"},
		{"another start model on the same path", plant{loss: factor(1.1), start: "s"}, Regressed, "ipu/adamw seed 1 losses",
			"those of the start model"},
		{"target not reached", plant{kernels: other, f1: lower(50)}, Regressed, "ipu/adamw squad.steps_to_target",
			"0 of 5 runs of the baseline and 5 of 5 now"},
		{"failed", plant{fail: true}, Regressed, "ipu/adamw seed 1", "it fell over"},
		{"other seeds", plant{seeds: []uint64{11, 12, 13, 14, 15}}, Holds, "ipu/adamw squad.f1", "no worse"},
	} {
		got, err := b.Check("b", plantRuns(t, r, c.now), time.Now())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		found := c.fact == ""
		for _, f := range got.Facts {
			if f.Name == c.fact {
				found = (f.Standing == c.standing || f.Standing == NotCompared && c.standing == Holds) && strings.Contains(f.Reason, c.why)
			}
			if f.Standing == Holds && !f.Exact && f.Power != nil && (float64(*f.Power) < 0 || float64(*f.Power) > 1) {
				t.Errorf("%s: %s: power is %v", c.name, f.Name, *f.Power)
			}
		}
		if got.Standing != c.standing || !found {
			t.Errorf("%s: %s (%s), want %s by %s: %s\n%+v", c.name, got.Standing, got.Count(), c.standing, c.fact, c.why, got.Facts)
		}
	}
}

// TestCheckItself: runs hold against a baseline made of them, however few they are, whether or not their environment
// names the kernels.
func TestCheckItself(t *testing.T) {
	r := quick(t)
	for _, seeds := range [][]uint64{{1}, {1, 2}, {1, 2, 3, 4, 5}} {
		for _, kernels := range []string{"amd64/avx2", ""} {
			runs := plantRuns(t, r, plant{seeds: seeds, f1: func(seed uint64) float64 { return 8 * float64(seed%3) }})
			for _, run := range runs {
				run.Environment.Kernels = kernels
			}
			b, err := NewBaseline(runs, true)
			if err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= len(runs); n++ {
				c, err := b.Check("b", runs[:n], time.Now())
				if err != nil || c.Standing != Holds {
					t.Fatalf("%d of %d runs, kernels %q: %v, %v", n, len(runs), kernels, c, err)
				}
				for _, f := range c.Facts {
					if f.Standing != Holds && !strings.Contains(f.Name, " phase") { // nothing was recorded of the earlier phases
						t.Errorf("%d of %d runs, kernels %q: %s: %s: %s", n, len(runs), kernels, f.Name, f.Standing, f.Reason)
					}
				}
			}
		}
	}
}

// TestWaivers: a waiver lets a fact pass until the end of its last day, and one that waives nothing is noted.
func TestWaivers(t *testing.T) {
	r := quick(t)
	b := soundBaseline(t, r)
	b.Waivers = []Waiver{{"ipu/adamw squad.*", "2030-01-31", "known"}, {"gpu-ref*", "2030-01-31", "of another arm"}}
	slow := plantRuns(t, r, plant{slow: 1.1})
	for day, want := range map[string]Standing{"2030-01-31": Holds, "2030-02-01": Regressed} {
		now, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		c, err := b.Check("b", slow, now.Add(time.Hour))
		if err != nil || c.Standing != want || !strings.Contains(strings.Join(c.Notes, "\n"), `"gpu-ref*"`) ||
			strings.Contains(strings.Join(c.Notes, "\n"), `"ipu/adamw`) {
			t.Errorf("%s: %s, notes %q, %v, want %s", day, c.Standing, c.Notes, err, want)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	r := quick(t)
	runs := plantRuns(t, r, plant{seeds: []uint64{1}})
	b, err := NewBaseline(runs, false)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := b.Check("b", runs, time.Now()); err != nil || c.Standing != Holds {
		t.Errorf("without times: %+v, %v", c, err)
	}
	if _, err := b.Check("b", nil, time.Now()); !errors.Is(err, verdict.ErrIncomparable) {
		t.Errorf("no runs: %v", err)
	}
	runs[0].Fingerprint = "other"
	if _, err := b.Check("b", runs, time.Now()); !errors.Is(err, verdict.ErrIncomparable) ||
		!strings.Contains(err.Error(), "save a new baseline") {
		t.Errorf("another recipe: %v", err)
	}
	b.Arms = append(b.Arms, BaselineArm{Arm: results.Arm{Backend: "gpu-ref", Optimizer: "adamw"}, Runs: b.Arms[0].Runs})
	runs[0].Fingerprint = b.Fingerprint
	if c, err := b.Check("b", runs, time.Now()); err != nil || c.Standing != Undecided {
		t.Errorf("an arm without runs: %+v, %v, want %s", c, err, Undecided)
	}
	for _, c := range []struct{ text, want string }{
		{`{"recipes": 1}`, `unknown field "recipes"`},
		{`{}`, "no fingerprint"},
		{`{"fingerprint": "f", "alpha": 0.05, "arms": [{"backend": "ipu", "runs": [{}]}],
			"waivers": [{"fact": "*", "until": "soon", "reason": "x"}]}`, `not "soon"`},
		{`{"fingerprint": "f", "alpha": 0.05, "arms": [{"backend": "ipu", "runs": []}]}`, "has no runs"},
		{`{"fingerprint": "f", "alpha": 5, "arms": [{}]}`, "alpha is 5"},
	} {
		if _, err := ReadBaseline("b", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %s", c.text, err, c.want)
		}
	}
	if err := b.Tolerances.Set("squad.f2", 1); err == nil || !strings.Contains(err.Error(), "squad.f1") {
		t.Errorf("unknown tolerance: %v", err)
	}
}

// TestCheckErrorRates counts decisions over random draws. Runs that are no worse than the baseline's are called a
// regression at a rate of α at most; runs that are worse by the tolerance hold at that rate at most; runs that are
// worse by twice the tolerance are called a regression, and any are decided, as often as powerRegressed and
// powerDecided say. The printed power estimates the deviation from the same few runs, and is too high in one case
// of five at most.
func TestCheckErrorRates(t *testing.T) {
	const trials = 1000
	rng := rand.New(rand.NewPCG(9, 10))
	draw := func(n int, mean, sd float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = mean + sd*rng.NormFloat64()
		}
		return v
	}
	slack := func(p float64) float64 { return 4 * math.Sqrt(p*(1-p)/trials) }
	for _, c := range []struct {
		n      int
		paired bool
		worse  float64
	}{{3, false, 0}, {5, false, 0}, {2, true, 1}, {5, true, 1}, {2, true, 2}, {5, true, 2}, {5, false, 2}, {10, false, 2}} {
		const sd = 0.8
		q := question{tolerance: 1, alpha: 0.05}
		rates, timid := map[Standing]float64{}, 0.0
		df, se := float64(2*c.n-2), sd*math.Sqrt(2/float64(c.n))
		if c.paired {
			df = float64(c.n - 1)
		}
		power := powerRegressed(2*q.tolerance, q.tolerance, se, df, q.alpha)
		for range trials {
			x, y := draw(c.n, 80, sd), draw(c.n, 80+c.worse, sd)
			var pairs []float64
			if c.paired {
				pairs = statistics.Differences(x, y)
			}
			e, _ := q.estimate(x, y, pairs)
			rates[e.standing(q.tolerance)] += 1.0 / trials
			if c.worse == 2 {
				got := (e.high - e.low) / 2 / distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1-q.alpha)
				if powerRegressed(2*q.tolerance, q.tolerance, statistics.GreatestSD(df)*got, df, q.alpha) <= power {
					timid += 1.0 / trials
				}
			}
		}
		switch rate := rates[Regressed]; {
		case c.worse == 0 && rate > q.alpha+slack(q.alpha):
			t.Errorf("%+v: called a regression at a rate of %.3f", c, rate)
		case c.worse == 1 && rates[Holds] > q.alpha+slack(q.alpha):
			t.Errorf("%+v: holds at a rate of %.3f", c, rates[Holds])
		case c.worse == 2 && math.Abs(rate-power) > slack(power):
			t.Errorf("%+v: called a regression at a rate of %.3f, want %.3f", c, rate, power)
		case c.worse == 2 && math.Abs(timid-0.8) > slack(0.8):
			t.Errorf("%+v: the power that is printed is at most the true one at a rate of %.3f, want 0.8", c, timid)
		}
		want := powerDecided(c.worse, q.tolerance, se, df, q.alpha)
		if got := 1 - rates[Undecided]; math.Abs(got-want) > slack(want) {
			t.Errorf("%+v: decided at a rate of %.3f, want %.3f", c, got, want)
		}
	}
}

// TestLaterPhases: on another kernel path only the first phase has losses to check run by run, and no phase has a
// time to its target.
func TestLaterPhases(t *testing.T) {
	run := func(kernels string, late results.Number) BaselineRun {
		return BaselineRun{Kernels: kernels, Modelled: map[string]string{"squad.seconds": "1",
			"squad.target.modelled_seconds": fmt.Sprint(late)}, Phases: []BaselinePhase{
			{Name: "phase1", FirstLoss: 8, Losses: []results.Number{7, 6}}, {Name: "squad", FirstLoss: 4, Losses: []results.Number{2, late}}}}
	}
	want := map[Standing][]string{Holds: {"batches", "squad.seconds", "phase1.first_loss", "phase1.losses"}, NotCompared: {"squad.losses"}}
	var c Check
	c.run("seed 1", run("amd64/avx512", 0.1), run("amd64/avx2", 0.3), defaultTolerances)
	got := map[Standing][]string{}
	for _, f := range c.Facts {
		got[f.Standing] = append(got[f.Standing], strings.TrimPrefix(f.Name, "seed 1 "))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("facts stand %v, want %v", got, want)
	}
}

func quick(t testing.TB) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load("scratch")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOneRun: one run regresses in nothing that varies from seed to seed, however bad it looks, unless it has the bits
// of the baseline's.
func TestOneRun(t *testing.T) {
	was := map[uint64]float64{1: 90, 2: 89, 3: 91, 4: 90.5}
	q := question{tolerance: 2, higher: true, alpha: 0.05}
	for _, value := range []float64{90, 50, math.NaN()} {
		if f := test("f1", was, map[uint64]float64{1: value}, q); f.Standing != NotCompared || !strings.Contains(f.Reason, "3 seeds or more") {
			t.Errorf("%g: %s, %q, want it not compared", value, f.Standing, f.Reason)
		}
	}
	if f := test("f1", was, map[uint64]float64{1: 50, 2: 51, 3: 49}, q); f.Standing != Regressed {
		t.Errorf("three runs: %s, want %s", f.Standing, Regressed)
	}
	q.same = true
	if f := test("f1", was, map[uint64]float64{1: 90}, q); f.Standing != Holds {
		t.Errorf("one run with the same bits: %s, want %s", f.Standing, Holds)
	}
}
