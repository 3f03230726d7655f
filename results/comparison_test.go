package results

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/recipe"
)

func load(t *testing.T, overrides ...string) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load("quick", overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// arms makes runs of backends with the F1 that each seed reached.
func arms(r *recipe.Recipe, f1 ...[]float64) []*Run {
	var runs []*Run
	for i, values := range f1 {
		for seed, v := range values {
			runs = append(runs, &Run{
				Dir:      strings.Repeat("x", i+1),
				Identity: Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: "d", Backend: []string{"gpu-ref", "ipu", "tpu"}[i], Optimizer: "adamw", Seed: uint64(seed + 1)},
				Recipe:   r,
				Result:   &Result{Status: Complete, Metrics: Metrics{"f1": v, "squad.f1": v}, MeasuredSeconds: map[string]float64{"total": 1}, Steps: 3, BatchDigest: "b"},
			})
		}
	}
	return runs
}

func TestVerdicts(t *testing.T) {
	nan := math.NaN()
	for name, test := range map[string]struct {
		a, b    []float64
		verdict Verdict
		better  string
		further bool
		note    string
	}{
		"one seed":                   {[]float64{90}, []float64{90}, Inconclusive, "", false, "1 seed: no variance"},
		"close":                      {[]float64{90, 91, 89, 90}, []float64{90.1, 91.2, 88.9, 90.1}, Equivalent, "", false, ""},
		"equal":                      {[]float64{90, 91, 89}, []float64{90, 91, 89}, Equivalent, "", false, ""},
		"close but not equal":        {[]float64{90, 91, 89, 90}, []float64{90.5, 91.5, 89.5, 90.51}, Equivalent, "", false, "there is a difference, within the margin"},
		"worse":                      {[]float64{90, 91, 89, 90}, []float64{80, 82, 79, 80}, Different, "a", false, ""},
		"better":                     {[]float64{80, 82, 79, 80}, []float64{90, 91, 89, 90}, Different, "b", false, ""},
		"scattered":                  {[]float64{90, 80, 85, 70}, []float64{85, 84, 86, 75}, Inconclusive, "", true, ""},
		"two seeds":                  {[]float64{90, 91}, []float64{90.5, 90}, Inconclusive, "", true, ""},
		"one diverged":               {[]float64{90, 91, 89}, []float64{90, nan, 89}, Inconclusive, "", false, "no finite value in 0 of 3 runs of a and 1 of b"},
		"all of many diverged":       {[]float64{90, 91, 89, 90, 90, 90}, []float64{nan, nan, nan, nan, nan, math.Inf(1)}, Different, "a", false, "sign test"},
		"both diverged, and 1 alone": {[]float64{nan, 91, 89}, []float64{nan, 91, nan}, Inconclusive, "", false, "no finite value"},
	} {
		rep, err := Compare(arms(load(t), test.a, test.b))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := rep.Comparisons[0]
		d := c.Metrics[0]
		if d.Metric != "f1" || c.Verdict != test.verdict || d.Verdict != test.verdict || d.Better != test.better || (d.FurtherSeeds > 0) != test.further || !strings.Contains(d.Note, test.note) || test.note == "" && d.Note != "" {
			t.Errorf("%s: %+v, want %s", name, d, test.verdict)
		}
		if _, err := json.Marshal(rep); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLossesFall: for a loss, the arm with less is the better one.
func TestLossesFall(t *testing.T) {
	d := compareMetric("phase1.masked_lm_loss", []float64{2, 2.1, 2}, []float64{3, 3.1, 3.05}, 0.05, 0.05)
	if d.Verdict != Different || d.Better != "a" {
		t.Errorf("%+v, want DIFFERENT and a better", d)
	}
}

func TestReport(t *testing.T) {
	runs := arms(load(t), []float64{90, 91}, []float64{90, 91}, []float64{50, 51, 52})
	runs[3].Result.BatchDigest = "c"
	runs[3].Result.Metrics["masked_lm_loss"] = 2
	rep, err := Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Runs) != 7 || len(rep.Comparisons) != 2 {
		t.Fatalf("%d runs and %d comparisons, want 7 and 2", len(rep.Runs), len(rep.Comparisons))
	}
	c := rep.Comparisons[0]
	if diff := cmp.Diff([]string{"with seed 2 the arms saw different batches (digests b and c)"}, c.Notes); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, d := range c.Metrics {
		names = append(names, d.Metric)
	}
	// The primary one, then those with a margin, whether they were measured or not.
	if diff := cmp.Diff([]string{"f1", "masked_lm_loss", "exact_match"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"seed 3 was run by tpu/adamw alone"}, rep.Comparisons[1].Notes); diff != "" {
		t.Error(diff)
	}
	text, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"recipe", "fingerprint", "data_digest", "runs", "comparisons"} {
		if keys[key] == nil {
			t.Errorf("the report has no %s", key)
		}
	}
}

func TestRefuse(t *testing.T) {
	base := load(t)
	for want, edit := range map[string]func(r *Run){
		"over different data":   func(r *Run) { r.DataDigest = "e" },
		"has not ended":         func(r *Run) { r.Result = nil },
		"with seed 1":           func(r *Run) { r.Backend = "gpu-ref" },
		"phases.phase1.steps: ": func(r *Run) { r.Recipe = load(t, "phases.0.steps=7"); r.Fingerprint = r.Recipe.Fingerprint() },
	} {
		runs := arms(base, []float64{90}, []float64{91})
		edit(runs[1])
		if _, err := Compare(runs); !errors.Is(err, ErrNotComparable) || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if _, err := Compare(nil); !errors.Is(err, ErrNotComparable) {
		t.Errorf("error is %v, want ErrNotComparable", err)
	}
	// Settings of backends are their own.
	runs := arms(base, []float64{90}, []float64{91})
	runs[1].Recipe = load(t, "backends.ipu.options.loss_scale=7")
	runs[1].Fingerprint = runs[1].Recipe.Fingerprint()
	if _, err := Compare(runs); err != nil {
		t.Errorf("recipes that differ in a backend's settings are refused: %v", err)
	}
}
