package page

import (
	"math"
	"slices"
	"strconv"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/series"
	"harness.invalid/results/verdict"
)

// charts has the numbers that the script draws from.
type charts struct {
	Arms       []string   `json:"arms"`
	Phases     []string   `json:"phases"`
	Quantities []quantity `json:"quantities"`
	Runs       []run      `json:"runs"`
	Targets    []target   `json:"targets"`
	Every      int        `json:"every"` // number of steps that a point averages
}

// quantity is a chart.
type quantity struct {
	Name      string `json:"name"`
	Label     string `json:"label"`
	Evaluated bool   `json:"evaluated"`
	Log       bool   `json:"log,omitempty"`  // the values span so much that a logarithm suits them
	Main      bool   `json:"main,omitempty"` // verdicts are about it, or it is the loss: it is in view, the others are folded away
}

// target is a recipe's target, drawn as a line.
type target struct {
	Quantity string  `json:"quantity"`
	Phase    string  `json:"phase"`
	Value    numbers `json:"value"`
}

// run is one run's numbers.
type run struct {
	Name  string `json:"name"`
	Arm   int    `json:"arm"`
	Seed  uint64 `json:"seed"`
	Steps points `json:"steps"`
	Tests points `json:"tests"` // evaluations
}

// points are columns of a table: places on the axes, the phase, and quantities.
type points struct {
	Phase    []int              `json:"phase"`
	Step     numbers            `json:"steps"`
	Samples  numbers            `json:"samples"`
	Measured numbers            `json:"measured-seconds"`
	Modelled numbers            `json:"modelled-seconds,omitempty"` // not there unless every point has it
	Skipped  []int              `json:"skipped,omitempty"`          // places in the columns
	Values   map[string]numbers `json:"values"`
}

// numbers are written with as many digits as can be seen; a number that is not finite becomes null.
type numbers []float64

// MarshalJSON writes six significant digits.
func (n numbers) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, v := range n {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, v, 'g', 6, 64)
	}
	return append(out, ']'), nil
}

// MostPoints is how many points of a quantity a page may have, over all runs: a few megabytes with ten quantities.
// Records may have the means of more steps already (series.OpenMeans).
const MostPoints = 60000

// checked reports whether every modelled time is of a program that the model was checked on. A run tells it at the end of
// a phase, so a run in its first phase has no such time yet.
func checked(c *verdict.Comparison) bool {
	for i := range c.Runs {
		phases := c.Runs[i].Phases
		for j := range phases {
			if sure := phases[j].ModelledConfidence; phases[j].ModelledSeconds > 0 && (sure == nil || !sure.Inside) {
				return false
			}
		}
		if len(phases) == 0 {
			return false
		}
	}
	return true
}

// newCharts are the curves of all runs; modelled: also against modelled time.
func newCharts(c *verdict.Comparison, records []*series.Record, modelled bool) *charts {
	out := &charts{Arms: []string{}, Phases: []string{}, Targets: []target{}}
	for _, a := range c.Arms {
		out.Arms = append(out.Arms, a.Arm.String())
	}
	first := records[0].Recipe
	for i := range first.Phases {
		p := &first.Phases[i]
		out.Phases = append(out.Phases, p.Name)
		if p.Target != nil {
			out.Targets = append(out.Targets, target{p.Target.Metric, p.Name, numbers{p.Target.Value}})
		}
	}
	all := 0
	for _, r := range records {
		all += r.Trained
	}
	out.Every = 1 + all/MostPoints
	for _, q := range series.Quantities(records) {
		if q.Evaluated && !evaluatedOften(records, q) {
			continue // the table has it
		}
		if q.Name == series.ModelledStepSeconds && !modelled {
			continue
		}
		out.Quantities = append(out.Quantities, quantity{Name: q.Name, Label: q.Label, Evaluated: q.Evaluated, Log: spans(records, q)})
	}
	_, primary := splitMetric(c.Primary)
	rank := func(q quantity) int {
		_, judged := first.Verdict.Margins[q.Name]
		switch {
		case q.Evaluated && q.Name == primary:
			return 0
		case q.Evaluated && judged:
			return 1
		case !q.Evaluated && q.Name == "loss":
			return 2
		case q.Evaluated:
			return 3
		}
		return 4
	}
	slices.SortStableFunc(out.Quantities, func(a, b quantity) int { return rank(a) - rank(b) })
	for i := range out.Quantities {
		out.Quantities[i].Main = rank(out.Quantities[i]) < 3
	}
	for _, r := range records {
		arm := slices.IndexFunc(c.Arms, func(a verdict.ArmSummary) bool { return a.Arm == r.Arm() })
		steps, tests := columns(r.Steps, first, out.Every), columns(r.Evaluations, first, 1)
		if !modelled {
			steps.Modelled, tests.Modelled = nil, nil
			delete(steps.Values, series.ModelledStepSeconds)
		}
		out.Runs = append(out.Runs, run{Name: r.Name(), Arm: arm, Seed: r.Seed, Steps: steps, Tests: tests})
	}
	return out
}

// evaluatedOften reports whether any run evaluated a quantity more than once in a phase, so that there is a curve
// to see.
func evaluatedOften(records []*series.Record, q series.Quantity) bool {
	for _, r := range records {
		count := map[string]int{}
		for _, p := range r.Evaluations {
			if _, ok := p.Values[q.Name]; ok {
				count[p.Phase]++
				if count[p.Phase] > 1 {
					return true
				}
			}
		}
	}
	return false
}

// columns turns points into columns, averaging every so many of a phase. The means of all runs cover the same
// steps.
func columns(list []series.Point, r *recipe.Recipe, every int) points {
	out := points{Phase: []int{}, Step: numbers{}, Samples: numbers{}, Measured: numbers{}, Values: map[string]numbers{}}
	phase := map[string]int{}
	for i := range r.Phases {
		phase[r.Phases[i].Name] = i
	}
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].Phase == list[from].Phase && (list[to].Step-1)/every == (list[from].Step-1)/every {
			to++
		}
		last := list[to-1]
		place := len(out.Step)
		out.Phase = append(out.Phase, phase[last.Phase])
		out.Step = append(out.Step, float64(last.Total))
		out.Samples = append(out.Samples, float64(last.Samples))
		out.Measured = append(out.Measured, last.Measured)
		if !math.IsNaN(last.Modelled) {
			out.Modelled = append(out.Modelled, last.Modelled)
		}
		sums := map[string]float64{}
		skipped := false
		for _, p := range list[from:to] {
			for name, v := range p.Values {
				sums[name] += v / float64(to-from)
			}
			skipped = skipped || p.Skipped
		}
		if skipped {
			out.Skipped = append(out.Skipped, place)
		}
		for name, v := range sums {
			column := out.Values[name]
			for len(column) < place {
				column = append(column, math.NaN()) // phases before did not have it
			}
			out.Values[name] = append(column, v)
		}
		from = to
	}
	if len(out.Modelled) < len(out.Step) {
		out.Modelled = nil
	}
	return out
}

// spans reports whether a quantity has positive values only, which span more than a factor of 50.
func spans(records []*series.Record, q series.Quantity) bool {
	low, high := math.Inf(1), 0.0
	for _, r := range records {
		for _, v := range r.Curve(q, "", series.Steps).Y {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				continue
			}
			if v <= 0 {
				return false
			}
			low, high = min(low, v), max(high, v)
		}
	}
	return high > 50*low
}
