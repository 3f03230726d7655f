// Package series lays out what runs recorded along the way: quantities of steps and evaluations against steps,
// samples and time. Packages page, plotting and export draw from it.
//
//	results.Run -> Record -> Curve of a quantity -> Band over the seeds of an arm
package series

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/report"
	"harness.invalid/results"
)

// Axis is what a curve is drawn against.
type Axis string

// The axes. All count over the whole run, and times are those of training, without evaluations and checkpoints.
const (
	Steps           Axis = "steps"
	Samples         Axis = "samples"          // sequences trained on
	MeasuredSeconds Axis = "measured-seconds" // wall time of the programs that ran
	ModelledSeconds Axis = "modelled-seconds" // of the steps on the system that a backend models
)

var axes = []string{string(Steps), string(Samples), string(MeasuredSeconds), string(ModelledSeconds)}

// ParseAxis reads the name of an axis.
func ParseAxis(name string) (Axis, error) {
	if !slices.Contains(axes, name) {
		return "", fmt.Errorf("axis is %q, want one of %s%s", name, strings.Join(axes, ", "), spelling.Hint(name, axes))
	}
	return Axis(name), nil
}

// Label is an axis in words.
func (a Axis) Label() string {
	switch a {
	case Samples:
		return "sequences trained on"
	case MeasuredSeconds:
		return "measured seconds of training"
	case ModelledSeconds:
		return "modelled seconds of training"
	}
	return "step"
}

// The quantities of steps besides the metrics of their batches.
const (
	GradientNorm = "gradient_norm"
	LossScale    = "loss_scale"
	LearningRate = "learning_rate"
	StepSeconds  = "measured_step_seconds"
	// ModelledStepSeconds exists only if the backend models a system.
	ModelledStepSeconds = "modelled_step_seconds"
)

// Record is what a run recorded.
type Record struct {
	*results.Run
	// Steps that were trained, with metrics of batches: all of them, or means of neighbours (see ReadMeans).
	Steps       []Point
	Evaluations []Point // metrics on data held out
	Trained     int     // steps
	Skipped     int     // of those
	Every       int     // a point of Steps is the mean of so many at most
}

// Point is a step or an evaluation.
type Point struct {
	Phase    string
	Step     int     // of the phase
	Total    int     // of the run
	Samples  int64   // sequences trained on up to here
	Count    int     // sequences of this step or evaluation
	Measured float64 // seconds of training up to here
	Modelled float64 // seconds of training up to here on the system that is modelled; NaN: none is
	// Wall is the seconds since the run began, evaluations included, but not the start of plugins or checkpoints.
	Wall   float64
	Values map[string]float64 // by quantity; absent: there is none
	// Skipped is a step whose gradient was not finite, so that nothing was learned from it.
	Skipped bool
	// Parts are the measured seconds of the parts of a step.
	Parts map[string]float64
}

// At is the place of a point on an axis.
func (p Point) At(a Axis) float64 {
	switch a {
	case Samples:
		return float64(p.Samples)
	case MeasuredSeconds:
		return p.Measured
	case ModelledSeconds:
		return p.Modelled
	}
	return float64(p.Total)
}

// Began is when the run began.
func (r *Record) Began() time.Time {
	if r.Result != nil && !r.Result.Started.IsZero() {
		return r.Result.Started
	}
	return r.Environment.Time
}

// Name is what files and legends call a run: BACKEND-OPTIMIZER-seedN.
func (r *Record) Name() string {
	return fmt.Sprintf("%s-seed%d", r.Arm().FileName(), r.Seed)
}

// Quantity is something that a curve can show.
type Quantity struct {
	Name      string
	Evaluated bool // on data held out, now and then; else at every step
	Label     string
	// Higher is better. It means nothing for quantities that are neither good nor bad.
	Higher bool
}

// Quantities lists what any of the records has: metrics first, in the order of recipe.Metrics.
func Quantities(records []*Record) []Quantity {
	has := func(evaluated bool) map[string]bool {
		names := map[string]bool{}
		for _, r := range records {
			points := r.Steps
			if evaluated {
				points = r.Evaluations
			}
			for _, p := range points {
				for name := range p.Values {
					names[name] = true
				}
			}
		}
		return names
	}
	var all []Quantity
	for _, evaluated := range []bool{false, true} {
		names := has(evaluated)
		var known []string
		for _, m := range recipe.Metrics() {
			known = append(known, m.Name)
		}
		known = append(known, GradientNorm, LossScale, LearningRate, StepSeconds, ModelledStepSeconds)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
		for _, name := range known {
			if names[name] {
				m, _ := recipe.MetricNamed(name)
				all = append(all, Quantity{Name: name, Evaluated: evaluated, Label: labels[name], Higher: m.Higher})
				if q := &all[len(all)-1]; q.Label == "" {
					q.Label = report.Label(name)
				}
			}
		}
	}
	return all
}

// labels of the quantities that are not metrics.
var labels = map[string]string{
	GradientNorm: "norm of the gradient",
	LossScale:    "loss scale",
	LearningRate: "learning rate",
	StepSeconds:  "measured seconds of a step",

	ModelledStepSeconds: "modelled seconds of a step",
}

// Curve is a quantity of one run.
type Curve struct{ X, Y []float64 }

// Curve extracts a quantity from a record; phase "" means all phases. Values that are not finite are kept; points
// without a place on the axis are dropped.
func (r *Record) Curve(q Quantity, phase string, a Axis) Curve {
	points := r.Steps
	if q.Evaluated {
		points = r.Evaluations
	}
	var c Curve
	for _, p := range points {
		x := p.At(a)
		if v, ok := p.Values[q.Name]; ok && (phase == "" || p.Phase == phase) && !math.IsNaN(x) {
			c.X, c.Y = append(c.X, x), append(c.Y, v)
		}
	}
	return c
}

// Band is a quantity over several runs of one arm: mean and standard deviation of the runs at the same step.
type Band struct {
	X, Mean []float64
	SD      []float64 // with N-1 below; nil for one run
	Runs    int
}

// Over averages curves point by point, up to the end of the shortest. Against time, the place of a point is the
// mean over the runs.
func Over(curves []Curve) Band {
	b := Band{Runs: len(curves)}
	if len(curves) == 0 {
		return b
	}
	n := len(curves[0].X)
	for _, c := range curves[1:] {
		n = min(n, len(c.X))
	}
	x, y := make([]float64, len(curves)), make([]float64, len(curves))
	for i := range n {
		for j, c := range curves {
			x[j], y[j] = c.X[i], c.Y[i]
		}
		b.X = append(b.X, stat.Mean(x, nil))
		mean, variance := stat.MeanVariance(y, nil)
		b.Mean = append(b.Mean, mean)
		if len(curves) > 1 {
			b.SD = append(b.SD, math.Sqrt(variance))
		}
	}
	return b
}

// Smooth replaces each value by the mean of the last n, leaving out values that are not finite.
func (c Curve) Smooth(n int) Curve {
	if n < 2 {
		return c
	}
	out := Curve{X: c.X, Y: make([]float64, len(c.Y))}
	for i := range c.Y {
		sum, count := 0.0, 0
		for _, v := range c.Y[max(0, i+1-n) : i+1] {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				sum += v
				count++
			}
		}
		out.Y[i] = sum / float64(count)
	}
	return out
}

// SortByStart sorts records by the start of their runs, which is the order of the arms on the command line.
func SortByStart(records []*Record) {
	slices.SortStableFunc(records, func(a, b *Record) int { return a.Environment.Time.Compare(b.Environment.Time) })
}
