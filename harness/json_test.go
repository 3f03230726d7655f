package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// TestCompareJSON holds what other programs read: the keys of a comparison, and that they agree with the runs' own
// record.
func TestCompareJSON(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	out := h.run(nil, "compare", "--backends", "ipu,gpu-ref:fp32", "--seeds", "2", "--seed", "3", "--quiet",
		"--format", "json", "--out", "runs",
		"--set", "phases.phase1.steps=2", "--set", "phases.phase2.steps=2", "--set", "phases.squad.steps=2")
	var c struct {
		Recipe      string
		Fingerprint string
		DataDigest  string `json:"data_digest"`
		Runs        []struct {
			Backend, Optimizer string
			Seed               uint64
			Metrics            map[string]float64
			MeasuredSeconds    map[string]float64 `json:"measured_seconds"`
			Steps              int
		}
		Comparisons []struct {
			Arm      struct{ Backend, Optimizer string }
			Baseline struct{ Backend, Optimizer string }
			Metrics  []map[string]any
		}
	}
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(out, &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"recipe", "fingerprint", "data_digest", "runs", "comparisons"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no key %q among %v", key, slices.Sorted(maps.Keys(keys)))
		}
	}
	if c.Recipe != "mini" || len(c.Fingerprint) != 64 || len(c.DataDigest) != 64 || len(c.Runs) != 4 {
		t.Fatalf("recipe %q, fingerprint %q, data %q, %d runs", c.Recipe, c.Fingerprint, c.DataDigest, len(c.Runs))
	}
	digests := map[uint64]string{}
	for _, r := range c.Runs {
		dir := map[string]string{"ipu": "ipu-adamw-seed", "gpu-ref:fp32": "gpu-ref-fp32-adamw-seed"}[r.Backend] + string('0'+rune(r.Seed))
		o := h.read(filepath.Join("runs", dir))
		if r.Optimizer != "adamw" || r.Steps != 6 || r.Seed < 3 || r.Seed > 4 ||
			r.MeasuredSeconds["total"] <= 0 || r.MeasuredSeconds["squad"] <= 0 {
			t.Errorf("run %+v", r)
		}
		if !maps.Equal(r.Metrics, map[string]float64(o.Result.Metrics)) || len(r.Metrics) == 0 {
			t.Errorf("%s: metrics %v, want %v as they were recorded", dir, r.Metrics, o.Result.Metrics)
		}
		if d, ok := digests[r.Seed]; ok && d != o.Result.BatchDigest {
			t.Errorf("%s has seen other batches than the run that it is paired with", dir)
		}
		digests[r.Seed] = o.Result.BatchDigest
	}
	if len(digests) != 2 || digests[3] == digests[4] {
		t.Errorf("batch digests %v, want another one for each seed", digests)
	}
	if len(c.Comparisons) != 1 || c.Comparisons[0].Arm.Backend != "gpu-ref:fp32" || c.Comparisons[0].Baseline.Backend != "ipu" ||
		len(c.Comparisons[0].Metrics) == 0 {
		t.Errorf("comparisons %+v", c.Comparisons)
	}
}
