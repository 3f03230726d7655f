package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// runsWithF1 makes a run of each backend for each seed, with the F1 that it reached. The floors are below whatever tests
// invent.
func runsWithF1(r *recipe.Recipe, f1 ...[]float64) []*results.Run {
	var runs []*results.Run
	for i, values := range f1 {
		for seed, v := range values {
			run := &results.Run{
				Identity: results.Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: "d",
					Backend: []string{"gpu-ref", "ipu", "tpu"}[i], Optimizer: "adamw", Seed: uint64(seed + 1)},
				Recipe: r,
				Result: &results.Result{Status: results.Complete, BatchDigest: fmt.Sprint("batches ", seed)},
			}
			run.Dir = fmt.Sprintf("%s-%d", run.Backend, run.Seed)
			run.Result.AddPhase(results.PhaseResult{Name: "squad", Steps: 3, Metrics: results.Metrics{"f1": v},
				Floors: results.Metrics{"f1": -100, "exact_match": -100}, MeasuredSeconds: map[string]float64{"total": 1}})
			runs = append(runs, run)
		}
	}
	return runs
}

func TestVerdicts(t *testing.T) {
	nan := math.NaN()
	many := func(v float64) []float64 { return slices.Repeat([]float64{v}, 6) }
	for _, c := range []struct {
		name      string
		a, b      []float64
		verdict   Decision
		direction string
		further   bool
		reason    string
	}{
		{"one seed", []float64{90}, []float64{90}, Inconclusive, "", false, "1 seed gives no variance; use --seeds 3 or more"},
		{"close", []float64{90, 91, 89, 90}, []float64{90.1, 91.2, 88.9, 90.1}, Equivalent, "", false,
			"the 90% interval -0.0731 to 0.223 lies within the margin of 2"},
		{"equal", []float64{90, 91, 89}, []float64{90, 91, 89}, Equivalent, "", false, "the 90% interval 0 to 0 lies within"},
		{"close but not equal", []float64{90, 91, 89, 90}, []float64{90.5, 91.5, 89.5, 90.51}, Equivalent, "", false,
			"different, and by less than the margin"},
		{"worse", []float64{90, 91, 89, 90}, []float64{80, 82, 79, 80}, Different, Worse, false,
			"excludes 0 and lies beyond the margin of 2"},
		{"better", []float64{80, 82, 79, 80}, []float64{90, 91, 89, 90}, Different, Better, false, "lies beyond the margin"},
		{"worse by about the margin", []float64{90, 91, 89, 90}, []float64{88, 89.1, 87, 87.9}, Different, Worse, false,
			"excludes 0, and the difference reaches the margin of 2"},
		{"worse by less than the margin", []float64{90, 91, 89, 90}, []float64{88.8, 88.8, 87.7, 87.9}, Inconclusive, "", true,
			"different, by an estimate smaller than the margin of 2, beyond which the 90% interval"},
		{"scattered", []float64{90, 80, 85, 70}, []float64{85, 84, 86, 75}, Inconclusive, "", true, "if the difference stays as it is"},
		{"two seeds", []float64{90, 91}, []float64{90.5, 90}, Inconclusive, "", true, "would settle it with probability 0.9"},
		{"one diverged", []float64{90, 91, 89}, []float64{90, nan, 89}, Inconclusive, "", true,
			"not finite in 0 of 3 runs of the baseline and 1 of 3 of the arm"},
		{"all of few diverged", []float64{90, 91, 89}, []float64{nan, nan, nan}, Inconclusive, "", true,
			"3 further seeds that end the same way would settle it"},
		{"all of many diverged", many(90), []float64{nan, nan, nan, nan, nan, math.Inf(1)}, Different, Worse, false,
			"the sign test has p = 0.031"},
		{"the baseline diverged", many(nan), many(90), Different, Better, false, "the sign test has p = 0.031"},
		{"both diverged", many(nan), many(nan), Inconclusive, "", true, "not finite in 6 of 6 runs of the baseline and 6 of 6 of the arm"},
	} {
		comparison, err := Compare(runsWithF1(quick(t), c.a, c.b))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		p := comparison.Comparisons[0]
		d, ok := p.Metric("squad", "f1")
		if !ok || p.Primary != "squad.f1" || p.Verdict != d.Verdict || p.Reason != d.Reason {
			t.Errorf("%s: the pairing's verdict is %s of %s, its primary metric's %s", c.name, p.Verdict, p.Primary, d.Verdict)
		}
		if d.Verdict != c.verdict || d.Direction != c.direction || d.FurtherSeeds > 0 != c.further || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s: %s %s, %d further seeds, %q, want %s %s, %q", c.name, d.Verdict, d.Direction, d.FurtherSeeds, d.Reason, c.verdict,
				c.direction, c.reason)
		}
		if err := comparison.WriteJSON(&bytes.Buffer{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLossesFall: for a loss, the arm with less is the better one.
func TestLossesFall(t *testing.T) {
	d := Difference{Phase: "phase1", Metric: "masked_lm_loss", Margin: 0.05}
	d.judge([]float64{2, 2.1, 2}, []float64{3, 3.1, 3.05}, fixedRule(3, 0.05))
	d.conclude(fixedRule(3, 0.05))
	if d.Verdict != Different || d.Direction != Worse {
		t.Errorf("%+v, want DIFFERENT and worse", d)
	}
}

// TestMargins: a margin for a name is that of the last phase that measures it, one for PHASE.NAME is that phase's.
func TestMargins(t *testing.T) {
	r := quick(t)
	c, err := CompareBy(runsWithF1(r, []float64{90}, []float64{90}), recipe.Verdict{
		Primary: "phase1.masked_lm_loss", Alpha: 0.05, Margins: map[string]float64{"masked_lm_loss": 2, "phase1.masked_lm_loss": 1}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, d := range c.Comparisons[0].Metrics {
		if d.Margin > 0 {
			got[d.Phase+"."+d.Metric] = d.Margin
		}
		if d.Primary != (d.Phase == "phase1" && d.Metric == "masked_lm_loss") {
			t.Errorf("%s.%s: primary is %v", d.Phase, d.Metric, d.Primary)
		}
	}
	if diff := cmp.Diff(map[string]float64{"phase1.masked_lm_loss": 1, "phase2.masked_lm_loss": 2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestComparison(t *testing.T) {
	r := quick(t)
	runs := runsWithF1(r, []float64{90, 91, 92}, []float64{90, 91}, []float64{50, 51, 52, 53})
	slices.Reverse(runs[3:])
	find := func(backend string, seed uint64) *results.Run {
		return runs[slices.IndexFunc(runs, func(r *results.Run) bool { return r.Backend == backend && r.Seed == seed })]
	}
	find("ipu", 2).Result.BatchDigest = "others"
	find("tpu", 3).Result = &results.Result{Status: results.Failed, Error: "backend tpu: it fell over"}
	find("tpu", 4).Result = nil
	find("tpu", 1).Environment.CPU = "Other"
	c, err := Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, r := range c.Runs {
		order = append(order, fmt.Sprintf("%s %d %s", r.Backend, r.Seed, r.Status))
	}
	want := []string{"gpu-ref 1 complete", "gpu-ref 2 complete", "gpu-ref 3 complete", "tpu 1 complete", "tpu 2 complete",
		"tpu 3 failed", "tpu 4 unfinished", "ipu 1 complete", "ipu 2 complete"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"tpu/adamw, seed 3: failed: backend tpu: it fell over",
		"tpu/adamw, seed 4: unfinished",
		"gpu-ref/adamw with seed 3: not paired, since ipu/adamw has no run that ended",
		"seed 2: the arms took different batches (digests: gpu-ref/adamw, tpu/adamw batches 1; ipu/adamw others), so " +
			"differences are not the backends' alone",
		"measured times come from different machines, say nothing about the backends and are not tested against each other (in one " +
			"allocation they would be: --one-allocation):  with 0 CPUs, GOMAXPROCS 0; Other with 0 CPUs, GOMAXPROCS 0",
	}, c.Notes); diff != "" {
		t.Error(diff)
	}
	for _, p := range c.Comparisons {
		for _, d := range p.Times {
			withheld := math.IsNaN(float64(d.Seconds.P)) && d.Seconds.Warning == unlikeMachines
			if withheld != (p.Arm.Backend == "tpu") {
				t.Errorf("times of %s in %s are %+v: want no test where a run was on another machine", p.Arm, d.Phase, d.Seconds)
			}
		}
		if len(p.Times) == 0 {
			t.Errorf("%s has no times", p.Arm)
		}
	}
	d, _ := c.Comparisons[0].Metric("squad", "f1")
	if diff := cmp.Diff([]uint64{1, 2, 3}, c.Comparisons[0].Seeds); diff != "" || d.Verdict != Inconclusive {
		t.Errorf("a run that failed is left out of the pairs: %s %s", d.Verdict, diff)
	}
	if s := c.Arms[1].Metrics["squad.f1"]; s.N != 2 || s.Mean != 50.5 {
		t.Errorf("tpu's F1 is %+v, want 50.5 over the 2 runs that ended", s)
	}
}

// TestJSON holds the shape that other programs read.
func TestJSON(t *testing.T) {
	c, err := Compare(runsWithF1(quick(t), []float64{90, math.NaN()}, []float64{90, 91}))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := c.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Recipe      string `json:"recipe"`
		Fingerprint string `json:"fingerprint"`
		DataDigest  string `json:"data_digest"`
		Runs        []struct {
			Backend         string             `json:"backend"`
			Optimizer       string             `json:"optimizer"`
			Seed            uint64             `json:"seed"`
			Metrics         map[string]any     `json:"metrics"`
			MeasuredSeconds map[string]float64 `json:"measured_seconds"`
			Steps           int                `json:"steps"`
		} `json:"runs"`
		Comparisons []map[string]any `json:"comparisons"`
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	r := got.Runs[0]
	if got.Recipe != "scratch" || len(got.Fingerprint) != 64 || got.DataDigest != "d" || len(got.Runs) != 4 || r.Backend != "gpu-ref" ||
		r.Optimizer != "adamw" ||
		r.Seed != 1 || r.Metrics["f1"] != 90.0 || r.MeasuredSeconds["squad"] != 1 || r.MeasuredSeconds["total"] != 1 || r.Steps != 3 {
		t.Errorf("JSON is\n%s", &text)
	}
	if v := got.Runs[1].Metrics["f1"]; v != "NaN" {
		t.Errorf("a metric that is no number is %v, want \"NaN\"", v)
	}
	if v := got.Comparisons[0]["verdict"]; v != "INCONCLUSIVE" {
		t.Errorf("the verdict is %v, want INCONCLUSIVE", v)
	}
}

func TestRefuse(t *testing.T) {
	base := quick(t)
	override := func(r *results.Run, set string) {
		var err error
		if r.Recipe, err = recipe.Load("scratch", set); err != nil {
			t.Fatal(err)
		}
		r.Fingerprint = r.Recipe.Fingerprint()
	}
	for want, edit := range map[string]func(r *results.Run){
		"run gpu-ref-1 and run ipu-2 saw different data, with digests d and e": func(r *results.Run) { r.DataDigest = "e" },
		"run ipu-1 and run ipu-2 are both of ipu/adamw with seed 1":            func(r *results.Run) { r.Seed = 1 },
		"run gpu-ref-1 and run ipu-2 are of different recipes: phases.phase1.steps: 600, 7": func(r *results.Run) {
			override(r, "phases.0.steps=7")
		},
		"both of ipu/adamw, with different settings: backends.ipu.options.loss_scale: not there, \"7\"": func(r *results.Run) {
			override(r, "backends.ipu.options.loss_scale=7")
		},
		"run ipu-1 and run ipu-2 are both of ipu/adamw, with different settings: precision: , fp16.32": func(r *results.Run) {
			r.Precision = "fp16.32"
		},
	} {
		runs := runsWithF1(base, []float64{90, 91}, []float64{91, 92})
		edit(runs[3])
		if _, err := Compare(runs); !errors.Is(err, ErrIncomparable) || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if _, err := Compare(nil); !errors.Is(err, ErrIncomparable) {
		t.Errorf("error is %v, want %v", err, ErrIncomparable)
	}
	// Settings of one backend, the same in all its runs, are what a comparison may be about.
	runs := runsWithF1(base, []float64{90, 91}, []float64{91, 92})
	override(runs[2], "backends.ipu.options.loss_scale=7")
	override(runs[3], "backends.ipu.options.loss_scale=7")
	if _, err := Compare(runs); err != nil {
		t.Errorf("recipes that differ in a backend's settings are refused: %v", err)
	}
}

// TestHolm: of two secondary metrics, each would count as different on its own; together only the clearer one does.
// The primary metric is left alone.
func TestHolm(t *testing.T) {
	r := quick(t)
	runs := runsWithF1(r, []float64{90, 91, 89, 90}, []float64{88, 89.5, 87.5, 89})
	for _, run := range runs {
		m := run.Result.Phases[0].Metrics
		m["exact_match"] = 70
		if run.Backend == "ipu" {
			m["exact_match"] += []float64{5, 6, 5, 6}[run.Seed-1]
		}
	}
	verdict := recipe.Verdict{Primary: "f1", Alpha: 0.05, Margins: map[string]float64{"f1": 0.5, "exact_match": 1}}
	c, err := CompareBy(runs, verdict)
	if err != nil {
		t.Fatal(err)
	}
	want := "ipu/adamw against gpu-ref/adamw: with 4 seeds DIFFERENT assumes that differences are normally distributed"
	if len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0], want) {
		t.Errorf("notes are %q, want %s", c.Notes, want)
	}
	if d, _ := c.Comparisons[0].Metric("squad", "exact_match"); d.Inference.Holm != nil || d.Verdict != Different {
		t.Errorf("a family of one is corrected: %+v", d)
	}
	// A family of two, by hand: p = 0.04 and 0.001 of a difference become 0.04 and 0.002; of equivalence 0.03 and
	// 0.9 become 0.06 and 0.9.
	p := Pairing{Metrics: []Difference{
		{Phase: "a", Metric: "f1", Difference: 1.05, Margin: 1, Primary: true, Baseline: statistics.Sample{N: 9},
			Inference: &statistics.Inference{SD: 1, PDifference: 0.04, PEquivalence: new(results.Number(0.9)),
				Interval: interval(0.1, 2, 0.95), EquivalenceInterval: interval(0.2, 1.9, 0.9)}},
		{Phase: "a", Metric: "exact_match", Margin: 1, Baseline: statistics.Sample{N: 9},
			Inference: &statistics.Inference{SD: 1, PDifference: 0.4, PEquivalence: new(results.Number(0.03)),
				Interval: interval(-0.5, 0.99, 0.95), EquivalenceInterval: interval(-0.4, 0.9, 0.9)}},
		{Phase: "a", Metric: "accuracy", Difference: 2.5, Margin: 1, Baseline: statistics.Sample{N: 9},
			Inference: &statistics.Inference{SD: 1, PDifference: 0.001, PEquivalence: new(results.Number(0.9)),
				Interval: interval(2, 3, 0.95), EquivalenceInterval: interval(2.1, 2.9, 0.9)}},
	}}
	p.conclude(fixedRule(9, 0.05))
	for i, want := range []Decision{Different, Inconclusive, Different} {
		if d := p.Metrics[i]; d.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", d.Metric, d.Verdict, d.Reason, want)
		}
	}
	if h := p.Metrics[1].Inference.Holm; h == nil || h.Metrics != 2 || math.Abs(float64(h.PEquivalence)-0.06) > 1e-12 || h.PDifference != 0.4 {
		t.Errorf("corrected: %+v, want 0.06 and 0.4 among 2", h)
	}
	if got := p.Metrics[1].Reason; !strings.Contains(got, "but p = 0.06 among 2 metrics after Holm") {
		t.Errorf("reason is %q", got)
	}
	if p.Primary != "a.f1" || p.Verdict != Different || p.Metrics[0].Inference.Holm != nil {
		t.Errorf("the primary metric is %s, %s, corrected by %v", p.Primary, p.Verdict, p.Metrics[0].Inference.Holm)
	}
}

// TestNoiseFloor: a difference that is clear in pairs, but smaller than that between groups of the baseline's own
// runs, is not claimed.
func TestNoiseFloor(t *testing.T) {
	r := quick(t)
	baseline := []float64{80, 90, 85, 95, 82, 91, 84, 97}
	arm := []float64{83, 93.1, 87.9, 98}
	c, err := Compare(runsWithF1(r, baseline[:4], arm))
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := c.Comparisons[0].Metric("squad", "f1"); d.Verdict != Different || d.Noise != nil {
		t.Fatalf("without A/A runs: %s, noise %v, want DIFFERENT", d.Verdict, d.Noise)
	}
	if c, err = Compare(runsWithF1(r, baseline, arm)); err != nil {
		t.Fatal(err)
	}
	d, _ := c.Comparisons[0].Metric("squad", "f1")
	// By hand: means 87.5 and 88.5, variances 41.667 and 47, pooled s = 6.6583, t with 6 degrees of freedom 2.4469.
	if d.Noise == nil || d.Noise.Difference != 1 || math.Abs(float64(d.Noise.Floor)-2.4469*6.6583*math.Sqrt(0.5)) > 1e-3 {
		t.Fatalf("noise is %+v, want a difference of 1 and a floor of 11.52", d.Noise)
	}
	if d.Verdict != Inconclusive || !strings.Contains(d.Reason, "A/A noise floor") {
		t.Errorf("%s: %s, want INCONCLUSIVE below the noise floor", d.Verdict, d.Reason)
	}
	if arms := [][]uint64{c.Arms[0].Seeds, c.Arms[1].Seeds}; !slices.Equal(arms[0], arms[1]) || c.Arms[0].Metrics["squad.f1"].Mean != 87.5 {
		t.Errorf("the arms are summed up over seeds %v, the baseline's mean is %v: A/A runs are no part of it", arms,
			c.Arms[0].Metrics["squad.f1"].Mean)
	}
	want := "gpu-ref/adamw with seeds 5, 6, 7, 8 is compared with its own runs with seeds 1, 2, 3, 4 (A/A), which gives the noise floor"
	if diff := cmp.Diff([]string{want}, c.Notes); diff != "" {
		t.Error(diff)
	}
}

// TestStarts: runs from different start models are compared, and the comparison says so.
func TestStarts(t *testing.T) {
	runs := runsWithF1(quick(t), []float64{90, 91, 92}, []float64{90, 91, 92})
	for i, want := range []int{0, 1} {
		runs[len(runs)-1].Start = strings.Repeat("e", 64*i)
		c, err := Compare(runs)
		if err != nil {
			t.Fatal(err)
		}
		notes := slices.DeleteFunc(slices.Clone(c.Notes), func(n string) bool { return !strings.Contains(n, "start from different models") })
		if len(notes) != want {
			t.Errorf("notes are %q, want %d about start models", c.Notes, want)
		}
	}
}

func quick(t testing.TB) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load("scratch", "verdict.plan.kind=fixed")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func interval(low, high results.Number, level float64) statistics.Interval {
	return statistics.Interval{Low: low, High: high, Level: level}
}
