package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// key is what a row is about: a recipe, with its fingerprint, since --set makes another one of the same name, and arms.
type key struct{ recipe, arms string }

func keyOf(c *verdict.Comparison, arms string) key {
	return key{fmt.Sprintf("%s %.8s", c.Recipe, c.Fingerprint), arms}
}

// row is one pair of arms over all tries.
type row struct {
	first    map[uint64]bool // first seeds of the tries that are counted
	seeds    int
	minutes  float64
	verdicts map[verdict.Decision]int
	others   map[string]int // metrics besides the primary one that were called DIFFERENT
}

type table struct {
	keys []key // in the order of appearance
	rows map[key]*row
}

func newTable() *table { return &table{rows: map[key]*row{}} }

// row returns the row for a try with the given first seed, and false if that try is counted already.
func (t *table) row(k key, first uint64) (*row, bool) {
	r := t.rows[k]
	if r == nil {
		r = &row{first: map[uint64]bool{}, verdicts: map[verdict.Decision]int{}, others: map[string]int{}}
		t.rows[k], t.keys = r, append(t.keys, k)
	}
	if r.first[first] {
		return r, false
	}
	r.first[first] = true
	return r, true
}

// add counts one comparison of two arms.
func (t *table) add(c *verdict.Comparison, p *verdict.Pairing) {
	seeds := p.Seeds
	if p.Look != nil {
		seeds = seeds[:min(len(seeds), p.Look.Pairs)]
	}
	if len(seeds) == 0 {
		return
	}
	r, fresh := t.row(keyOf(c, fmt.Sprintf("%s against %s", p.Arm, p.Baseline)), seeds[0])
	if !fresh {
		return
	}
	r.seeds += len(seeds)
	r.verdicts[p.Verdict]++
	for _, run := range c.Runs {
		if (run.Arm == p.Arm || run.Arm == p.Baseline) && slices.Contains(seeds, run.Seed) {
			r.minutes += run.MeasuredSeconds[results.TotalSeconds] / 60
		}
	}
	for _, m := range p.Metrics {
		if !m.Primary && m.Verdict == verdict.Different {
			r.others[m.Phase+"."+m.Metric]++
		}
	}
}

// group is the runs of one arm in one try.
type group struct {
	first   uint64
	values  []float64
	minutes float64
}

// itself is an arm that is compared with itself.
type itself struct {
	metric string
	margin float64
	alpha  float64
	groups []group
}

// addItself holds the runs of every other try of an arm against those of the next one.
func (t *table) addItself(tries []*verdict.Comparison) error {
	arms := map[key]*itself{}
	var keys []key
	for _, c := range tries {
		for _, a := range c.Arms {
			if strings.Contains(a.String(), "?") || len(c.Comparisons) == 0 {
				continue
			}
			i := slices.IndexFunc(c.Comparisons[0].Metrics, func(d verdict.Difference) bool { return d.Primary })
			if i < 0 {
				continue
			}
			d, k := c.Comparisons[0].Metrics[i], keyOf(c, fmt.Sprintf("%s against itself, other seeds (unpaired)", a.Arm))
			g := groupOf(c, a.Arm, d)
			if arms[k] == nil {
				arms[k], keys = &itself{metric: d.Metric, margin: d.Margin, alpha: c.Alpha}, append(keys, k)
			}
			of := arms[k]
			if len(g.values) > 0 && !slices.ContainsFunc(of.groups, func(o group) bool { return o.first == g.first }) {
				of.groups = append(of.groups, g)
			}
		}
	}
	for _, k := range keys {
		if err := t.judge(k, arms[k]); err != nil {
			return fmt.Errorf("%s: %w", k.arms, err)
		}
	}
	return nil
}

// groupOf are the values of a metric in the complete runs of an arm.
func groupOf(c *verdict.Comparison, a results.Arm, d verdict.Difference) group {
	var g group
	for _, r := range c.RunsOf(a) {
		p, _ := r.Phase(d.Phase)
		v, ok := p.Metrics[d.Metric]
		if !ok {
			continue
		}
		if len(g.values) == 0 {
			g.first = r.Seed
		}
		g.values, g.minutes = append(g.values, v), g.minutes+r.MeasuredSeconds[results.TotalSeconds]/60
	}
	return g
}

// judge counts the comparisons of an arm with itself.
func (t *table) judge(k key, of *itself) error {
	slices.SortFunc(of.groups, func(a, b group) int { return cmp.Compare(a.first, b.first) })
	for pair := range slices.Chunk(of.groups, 2) {
		if len(pair) < 2 {
			break
		}
		x, y := pair[0], pair[1]
		a, err := verdict.OfScores(verdict.Scores{Values: x.values}, verdict.Scores{Values: y.values},
			verdict.Question{Metric: of.metric, Margin: of.margin, Alpha: of.alpha, Unpaired: true})
		if err != nil {
			return err
		}
		r, _ := t.row(k, x.first)
		r.seeds += (len(x.values) + len(y.values)) / 2
		r.minutes += x.minutes + y.minutes
		r.verdicts[a.Verdict]++
	}
	return nil
}

func (t *table) print(w io.Writer) {
	fmt.Fprintln(w, "| Recipe | Arms | Tries | DIFFERENT | EQUIVALENT | INCONCLUSIVE | Mean seeds | Mean minutes "+
		"| Other metrics that were DIFFERENT |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, k := range t.keys {
		r := t.rows[k]
		var others []string
		for m, n := range r.others {
			others = append(others, fmt.Sprintf("%s %d", m, n))
		}
		slices.Sort(others)
		n := float64(len(r.first))
		fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d | %.1f | %.1f | %s |\n", k.recipe, k.arms, len(r.first),
			r.verdicts[verdict.Different], r.verdicts[verdict.Equivalent], r.verdicts[verdict.Inconclusive], float64(r.seeds)/n,
			r.minutes/n, strings.Join(others, ", "))
	}
}
