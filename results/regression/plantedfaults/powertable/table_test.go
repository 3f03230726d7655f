package main

import (
	"bytes"
	"strings"
	"testing"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
	"harness.invalid/results/verdict"
)

// try is a comparison of six pairs, looked at after four, with seeds from first on, in which the arm is off by d.
func try(first uint64, d float64, v verdict.Decision) *verdict.Comparison {
	base, arm := results.Arm{Backend: "x", Optimizer: "o"}, results.Arm{Backend: "x?a=1", Optimizer: "o"}
	metric := verdict.Difference{Phase: "p", Metric: "f1", Primary: true, Margin: 2}
	p := verdict.Pairing{Baseline: base, Arm: arm, Verdict: v, Look: &statistics.Look{Pairs: 4},
		Metrics: []verdict.Difference{metric, {Phase: "q", Metric: "loss", Verdict: verdict.Different}}}
	c := &verdict.Comparison{Recipe: "r", Fingerprint: "a", Alpha: 0.05, Arms: []verdict.ArmSummary{{Arm: base}, {Arm: arm}}}
	for i := range uint64(6) {
		p.Seeds = append(p.Seeds, first+i)
		for side, a := range []results.Arm{base, arm} {
			value := 80 + 0.1*float64(i) + d*float64(side)
			c.Runs = append(c.Runs, verdict.RunSummary{Arm: a, Seed: first + i, Status: results.Complete,
				MeasuredSeconds: map[string]float64{results.TotalSeconds: 30},
				Phases:          []results.PhaseResult{{Name: "p", Metrics: results.Metrics{"f1": value}}}})
		}
	}
	c.Comparisons = []verdict.Pairing{p}
	return c
}

// TestTable: tries are counted once, seeds and minutes up to the look, and the arm without options is held against
// itself, the first try against the second; the third has none to be held against.
func TestTable(t *testing.T) {
	tries := []*verdict.Comparison{
		try(1000, 5, verdict.Different), try(2000, 0, verdict.Equivalent), try(3000, 5, verdict.Different), try(1000, 0, verdict.Inconclusive),
		try(500, 0, verdict.Equivalent),
	}
	tries[4].Fingerprint = "b" // of another experiment, whose runs are not held against those of the first
	table := newTable()
	for _, c := range tries {
		table.add(c, &c.Comparisons[0])
	}
	if err := table.addItself(tries); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	table.print(&out)
	for _, want := range []string{
		"| r a | x?a=1/o against x/o | 3 | 2 | 1 | 0 | 4.0 | 4.0 | q.loss 3 |",
		"| r b | x?a=1/o against x/o | 1 | 0 | 1 | 0 | 4.0 | 4.0 | q.loss 1 |",
		"| r a | x/o against itself, other seeds (unpaired) | 1 | 0 | 1 | 0 | 6.0 | 6.0 |  |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant the row %s", out.String(), want)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines, want 5:\n%s", n, out.String())
	}
}
