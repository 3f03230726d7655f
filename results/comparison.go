package results

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"harness.invalid/core/recipe"
)

// ErrNotComparable is wrapped by Compare's refusals.
var ErrNotComparable = errors.New("runs can't be compared")

// Report is what a comparison of runs says, in the form that harness prints as JSON.
type Report struct {
	Recipe      string       `json:"recipe"`
	Fingerprint string       `json:"fingerprint"`
	DataDigest  string       `json:"data_digest"`
	Runs        []Summary    `json:"runs"`
	Comparisons []Comparison `json:"comparisons"` // of each arm with the first
}

// Summary is a run in a report.
type Summary struct {
	Backend         string             `json:"backend"`
	Precision       string             `json:"precision"`
	Optimizer       string             `json:"optimizer"`
	Seed            uint64             `json:"seed"`
	Status          Status             `json:"status"`
	Error           string             `json:"error,omitempty"`
	Metrics         Metrics            `json:"metrics"`
	MeasuredSeconds map[string]float64 `json:"measured_seconds"`
	Steps           int                `json:"steps"`
	Skipped         int                `json:"skipped"`
	BatchDigest     string             `json:"batch_digest"`
	Phases          []PhaseResult      `json:"phases"`
}

// Comparison is what two arms have to do with each other.
type Comparison struct {
	A       Arm          `json:"a"`
	B       Arm          `json:"b"`
	Seeds   []uint64     `json:"seeds"` // that both arms ran
	Primary string       `json:"primary"`
	Verdict Verdict      `json:"verdict"` // of the primary metric
	Metrics []Difference `json:"metrics"`
	Notes   []string     `json:"notes,omitempty"` // doubts that do not change the numbers
}

// Verdict is the answer to whether two arms reach the same value.
type Verdict string

// The answers. That nothing was found is INCONCLUSIVE, never EQUIVALENT.
const (
	Equivalent   Verdict = "EQUIVALENT"   // the difference is shown to lie within the margin
	Different    Verdict = "DIFFERENT"    // the difference is shown not to be 0, and not shown to lie within the margin
	Inconclusive Verdict = "INCONCLUSIVE" // neither
)

// Difference is a metric of two arms, paired by seed. Numbers that would be undefined are left out.
type Difference struct {
	Metric string  `json:"metric"`
	N      int     `json:"n"` // pairs
	MeanA  Number  `json:"mean_a"`
	MeanB  Number  `json:"mean_b"`
	SDA    *Number `json:"sd_a,omitempty"`
	SDB    *Number `json:"sd_b,omitempty"`
	// Difference is the mean of b - a, SD the standard deviation of the pairs' differences, and Low to High the t interval at Level, which is
	// 1 - 2·alpha: it lies within the margin exactly when the arms are EQUIVALENT.
	Difference Number  `json:"difference"`
	SD         *Number `json:"sd,omitempty"`
	Level      float64 `json:"confidence,omitempty"`
	Low        *Number `json:"low,omitempty"`
	High       *Number `json:"high,omitempty"`
	// PEquivalent and PDifferent are the p-values of TOST and of the paired t-test.
	PEquivalent *Number `json:"p_equivalent,omitempty"`
	PDifferent  *Number `json:"p_different,omitempty"`
	Margin      float64 `json:"margin,omitempty"`
	Verdict     Verdict `json:"verdict"`
	// Better is the arm that is shown to be better, when the verdict is DIFFERENT: a or b.
	Better string `json:"better,omitempty"`
	// FurtherSeeds would settle an INCONCLUSIVE metric with a probability of 0.9 if mean and spread stay what they are; 0: not known.
	FurtherSeeds int    `json:"further_seeds,omitempty"`
	Note         string `json:"note,omitempty"`
}

// Compare pairs runs by seed and compares each arm with that of the first run. All runs must have the same recipe fingerprint and data digest,
// and have ended. Margins and the primary metric are those of the first run's recipe.
func Compare(runs []*Run) (*Report, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("no runs are given: %w", ErrNotComparable)
	}
	first := runs[0]
	rep := &Report{Recipe: first.Identity.Recipe, Fingerprint: first.Fingerprint, DataDigest: first.DataDigest, Runs: []Summary{}, Comparisons: []Comparison{}}
	var arms []Arm
	type cell struct {
		arm  Arm
		seed uint64
	}
	taken := make(map[cell]*Run)
	for _, r := range runs {
		if err := comparable(first, r); err != nil {
			return nil, err
		}
		key := cell{r.Arm(), r.Seed}
		if other := taken[key]; other != nil {
			return nil, fmt.Errorf("runs %s and %s are both of %s with seed %d: %w", other.Dir, r.Dir, r.Arm(), r.Seed, ErrNotComparable)
		}
		taken[key] = r
		if !slices.Contains(arms, r.Arm()) {
			arms = append(arms, r.Arm())
		}
		rep.Runs = append(rep.Runs, r.summary())
	}
	for _, arm := range arms[1:] {
		c := Comparison{A: arms[0], B: arm, Seeds: []uint64{}, Primary: first.Recipe.Verdict.Primary}
		var a, b []*Run
		for _, r := range runs {
			if r.Arm() != arms[0] {
				continue
			}
			other := taken[cell{arm, r.Seed}]
			if other == nil {
				c.Notes = append(c.Notes, fmt.Sprintf("seed %d was run by %s alone", r.Seed, arms[0]))
				continue
			}
			c.Seeds = append(c.Seeds, r.Seed)
			a, b = append(a, r), append(b, other)
			if x, y := r.Result.BatchDigest, other.Result.BatchDigest; x != y && r.Result.Status == Complete && other.Result.Status == Complete {
				c.Notes = append(c.Notes, fmt.Sprintf("with seed %d the arms saw different batches (digests %.12s and %.12s)", r.Seed, x, y))
			}
		}
		for _, r := range runs {
			if r.Arm() == arm && taken[cell{arms[0], r.Seed}] == nil {
				c.Notes = append(c.Notes, fmt.Sprintf("seed %d was run by %s alone", r.Seed, arm))
			}
		}
		c.compare(a, b, first.Recipe)
		rep.Comparisons = append(rep.Comparisons, c)
	}
	return rep, nil
}

// comparable says why two runs can't stand in the same table.
func comparable(a, b *Run) error {
	if b.Result == nil {
		return fmt.Errorf("run %s has not ended: %w", b.Dir, ErrNotComparable)
	}
	if a.Fingerprint != b.Fingerprint {
		var fields []string
		for _, d := range recipe.Diff(a.Recipe, b.Recipe) {
			if d.Identity {
				fields = append(fields, d.String())
			}
		}
		return fmt.Errorf("runs %s and %s are of recipes that differ in %s: %w", a.Dir, b.Dir, strings.Join(fields, "; "), ErrNotComparable)
	}
	if a.DataDigest != b.DataDigest {
		return fmt.Errorf("runs %s and %s are of the same recipe over different data (digests %.12s and %.12s): %w", a.Dir, b.Dir, a.DataDigest, b.DataDigest, ErrNotComparable)
	}
	return nil
}

func (r *Run) summary() Summary {
	s := Summary{
		Backend: r.Backend, Precision: r.Precision, Optimizer: r.Optimizer, Seed: r.Seed, Status: r.Result.Status, Error: r.Result.Error,
		Metrics: r.Result.Metrics, MeasuredSeconds: r.Result.MeasuredSeconds, Steps: r.Result.Steps, Skipped: r.Result.Skipped,
		BatchDigest: r.Result.BatchDigest, Phases: r.Result.Phases,
	}
	if s.Metrics == nil {
		s.Metrics = Metrics{}
	}
	if s.MeasuredSeconds == nil {
		s.MeasuredSeconds = map[string]float64{}
	}
	return s
}

// compare fills in the metrics: the primary one, those with margins, then all others that every run has, each in the order of recipe.Metrics.
func (c *Comparison) compare(a, b []*Run, r *recipe.Recipe) {
	c.Verdict = Inconclusive
	if len(a) == 0 {
		c.Notes = append(c.Notes, "the arms have no seed in common")
		return
	}
	for _, name := range metricNames(r) {
		if _, judged := r.Verdict.Margins[name]; !judged && !slices.ContainsFunc(slices.Concat(a, b), func(r *Run) bool { _, ok := r.Result.Metrics[name]; return ok }) {
			continue
		}
		d := compareMetric(name, values(a, name), values(b, name), r.Verdict.Margins[name], r.Verdict.Alpha)
		if name == c.Primary {
			c.Verdict = d.Verdict
		}
		c.Metrics = append(c.Metrics, d)
	}
}

// metricNames are the metrics to compare: each by its plain name, and by its phase's where a margin asks for it.
func metricNames(r *recipe.Recipe) []string {
	var names []string
	if p := r.Verdict.Primary; p != "" {
		names = append(names, p)
	}
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, judged := range []bool{true, false} {
		for _, m := range recipe.Metrics() {
			for _, p := range r.Phases {
				if _, ok := r.Verdict.Margins[p.Name+"."+m.Name]; ok && judged {
					add(p.Name + "." + m.Name)
				}
			}
			if _, ok := r.Verdict.Margins[m.Name]; ok == judged {
				add(m.Name)
			}
		}
	}
	return names
}

// values of a metric; a run that failed, or does not have it, has NaN.
func values(runs []*Run, name string) []float64 {
	v := make([]float64, len(runs))
	for i, r := range runs {
		v[i] = math.NaN()
		if x, ok := r.Result.Metrics[name]; ok && r.Result.Status == Complete {
			v[i] = x
		}
	}
	return v
}

// compareMetric judges a metric. The difference matters when it is margin or more; margin 0: none is stated.
func compareMetric(name string, a, b []float64, margin, alpha float64) Difference {
	d := Difference{Metric: name, N: len(a), Margin: margin, Verdict: Inconclusive,
		MeanA: Number(stat.Mean(a, nil)), MeanB: Number(stat.Mean(b, nil))}
	p := NewPaired(a, b)
	d.Difference = Number(p.Mean)
	onlyA, onlyB, both := failures(a, b)
	if onlyA+onlyB+both > 0 {
		d.judgeFailures(onlyA, onlyB, both, alpha)
		return d
	}
	if p.N < 2 {
		d.Note = "1 seed: no variance, no verdict; run more (--seeds 3)"
		return d
	}
	low, high := p.Interval(1 - 2*alpha)
	d.SDA, d.SDB, d.SD = number(stat.StdDev(a, nil)), number(stat.StdDev(b, nil)), number(p.SD)
	d.Level, d.Low, d.High, d.PDifferent = 1-2*alpha, number(low), number(high), number(p.PDifferent())
	if margin > 0 {
		d.PEquivalent = number(p.PEquivalent(margin))
	}
	switch {
	case margin > 0 && p.PEquivalent(margin) < alpha:
		d.Verdict = Equivalent
		if p.PDifferent() < alpha {
			d.Note = "there is a difference, within the margin"
		}
	case p.PDifferent() < alpha:
		d.Verdict, d.Better = Different, better(name, p.Mean)
	default:
		d.Note = "no margin is stated"
		if margin > 0 {
			d.Note = ""
		}
		if n := p.SeedsNeeded(margin, alpha); n > p.N {
			d.FurtherSeeds = n - p.N
		} else if n > 0 {
			d.FurtherSeeds = 1 // enough by expectation, not by luck
		}
	}
	return d
}

// failures counts the pairs in which only a, only b, or both have no finite value.
func failures(a, b []float64) (onlyA, onlyB, both int) {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	for i := range a {
		switch {
		case !finite(a[i]) && !finite(b[i]):
			both++
		case !finite(a[i]):
			onlyA++
		case !finite(b[i]):
			onlyB++
		}
	}
	return onlyA, onlyB, both
}

// judgeFailures gives a verdict where runs failed or diverged. They are never dropped: what is left would be a choice of the good ones.
func (d *Difference) judgeFailures(onlyA, onlyB, both int, alpha float64) {
	d.Note = fmt.Sprintf("no finite value in %d of %d runs of a and %d of b: no interval", onlyA+both, d.N, onlyB+both)
	if PFailures(onlyA, onlyB) >= alpha {
		return
	}
	d.Verdict, d.Better = Different, "a"
	if onlyA > onlyB {
		d.Better = "b"
	}
	d.Note += "; that one fails more often is shown by the sign test"
}

// better is the arm with the better mean.
func better(metric string, difference float64) string {
	plain := metric[strings.LastIndexByte(metric, '.')+1:]
	m, ok := recipe.MetricNamed(plain)
	switch {
	case !ok:
		return ""
	case m.Higher == (difference > 0):
		return "b"
	}
	return "a"
}

func number(v float64) *Number {
	n := Number(v)
	return &n
}
