// Powertable prints what comparisons found: for each pair of arms the share of tries that
// were called DIFFERENT, EQUIVALENT and INCONCLUSIVE, with mean seeds and minutes.
//
//	powertable COMPARISON.json...
//
// power.sh makes the comparisons: of known faults, each in several tries with other seeds.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/results/verdict"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: powertable COMPARISON.json...")
		os.Exit(2)
	}
	var tries []*verdict.Comparison
	for _, name := range os.Args[1:] {
		c, err := read(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "powertable:", err)
			os.Exit(2)
		}
		tries = append(tries, c)
	}
	t := table{rows: map[string]*row{}}
	for _, c := range tries {
		for i := range c.Comparisons {
			t.add(c, &c.Comparisons[i])
		}
	}
	t.print()
}

// mostBytes of a comparison.
const mostBytes = 1 << 30

func read(name string) (*verdict.Comparison, error) {
	text, err := bounded.ReadFile(name, mostBytes)
	if err != nil {
		return nil, err
	}
	c := &verdict.Comparison{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// row is one pair of arms over all tries.
type row struct {
	tries, seeds int
	minutes      float64
	verdicts     map[verdict.Decision]int
	others       map[string]int // metrics besides the primary one that were called DIFFERENT
}

type table struct {
	names []string // in the order of appearance
	rows  map[string]*row
}

func (t *table) add(c *verdict.Comparison, p *verdict.Pairing) {
	name := fmt.Sprintf("%s against %s", p.Arm, p.Baseline)
	r := t.rows[name]
	if r == nil {
		r = &row{verdicts: map[verdict.Decision]int{}, others: map[string]int{}}
		t.rows[name], t.names = r, append(t.names, name)
	}
	seeds := p.Seeds
	if p.Look != nil {
		seeds = seeds[:min(len(seeds), p.Look.Pairs)]
	}
	r.tries++
	r.seeds += len(seeds)
	r.verdicts[p.Verdict]++
	for _, run := range c.Runs {
		if (run.Arm == p.Arm || run.Arm == p.Baseline) && slices.Contains(seeds, run.Seed) {
			r.minutes += run.MeasuredSeconds["total"] / 60
		}
	}
	for _, m := range p.Metrics {
		if !m.Primary && m.Verdict == verdict.Different {
			r.others[m.Phase+"."+m.Metric]++
		}
	}
}

func (t *table) print() {
	fmt.Println("| Arms | Tries | DIFFERENT | EQUIVALENT | INCONCLUSIVE | Mean seeds | Mean minutes | Other metrics that were DIFFERENT |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, name := range t.names {
		r := t.rows[name]
		var others []string
		for m, n := range r.others {
			others = append(others, fmt.Sprintf("%s %d", m, n))
		}
		slices.Sort(others)
		n := float64(r.tries)
		fmt.Printf("| %s | %d | %d | %d | %d | %.1f | %.1f | %s |\n", name, r.tries, r.verdicts[verdict.Different],
			r.verdicts[verdict.Equivalent], r.verdicts[verdict.Inconclusive], float64(r.seeds)/n, r.minutes/n, strings.Join(others, ", "))
	}
}
