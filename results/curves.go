package results

import (
	"fmt"
	"math"
	"slices"
)

// Point is a place on a curve.
type Point struct {
	Step    int     // of the phase
	Seconds float64 // measured, of training up to there
	Value   float64
}

// Curves are the curves of one phase of one run.
type Curves struct {
	Phase string
	// Loss is that of each training step, with dropout, in nats.
	Loss []Point
	// Evaluations are the metrics of the evaluations, by name.
	Evaluations map[string][]Point
	// StepSeconds are the measured seconds of each step.
	StepSeconds []float64
	// FastestStepSeconds is the least of StepSeconds over the steps that were not skipped (those have less to do);
	// 0: there is none. Whatever else a machine does only makes a step longer, and on a shared machine the noise of
	// times has a long tail and comes in bursts. So of all order statistics the minimum has the smallest error,
	// provided that some step was left undisturbed. It does not show what only some steps suffer from, such as
	// waiting for data. Source: Chen, Revels 2016, Robust benchmarking in noisy environments, arXiv:1608.04295.
	FastestStepSeconds float64
}

// Curves reads what the run recorded, phase by phase in the order of the recipe, unless Trace has done so.
func (r *Run) Curves() ([]Curves, error) {
	if r.curves != nil {
		return r.curves, nil
	}
	return r.readCurves(func(*Step) {})
}

// Trace hands each recorded step to visit, which the next step overwrites, and keeps the curves for Curves: the steps of
// many runs take long to read.
func (r *Run) Trace(visit func(*Step)) (err error) {
	r.curves, err = r.readCurves(visit)
	return err
}

// CountSteps is how many steps are recorded, or for a complete run how many it took.
func (r *Run) CountSteps() (int, error) {
	if r.Result != nil && r.Result.Status == Complete {
		return r.Result.Steps, nil
	}
	n := 0
	for _, err := range readLines(r.Dir, stepsFile, r.recorded().Steps, func([]byte) (struct{}, error) { return struct{}{}, nil }) {
		if err != nil {
			return 0, fmt.Errorf("%s: %w", r.Title(), err)
		}
		n++
	}
	return n, nil
}

func (r *Run) readCurves(visit func(*Step)) ([]Curves, error) {
	all := make([]Curves, len(r.Recipe.Phases))
	index := map[string]int{}
	for i, p := range r.Recipe.Phases {
		all[i] = Curves{Phase: p.Name, Evaluations: map[string][]Point{}}
		index[p.Name] = i
	}
	of := func(phase string) (*Curves, error) {
		i, ok := index[phase]
		if !ok {
			return nil, fmt.Errorf("%s: a line is of phase %q, which the recipe does not have", r.Title(), phase)
		}
		return &all[i], nil
	}
	seconds := map[string]float64{}
	for s, err := range r.passingSteps() {
		if err != nil {
			return nil, err
		}
		visit(s)
		c, err := of(s.Phase)
		if err != nil {
			return nil, err
		}
		took := s.MeasuredSeconds[TotalSeconds]
		seconds[s.Phase] += took
		c.StepSeconds = append(c.StepSeconds, took)
		if s.Finite && took > 0 && (c.FastestStepSeconds == 0 || took < c.FastestStepSeconds) {
			c.FastestStepSeconds = took
		}
		c.Loss = append(c.Loss, Point{s.Step, seconds[s.Phase], s.Metrics["loss"]})
	}
	for e, err := range r.Evaluations() {
		if err != nil {
			return nil, err
		}
		c, err := of(e.Phase)
		if err != nil {
			return nil, err
		}
		for name, v := range e.Metrics {
			c.Evaluations[name] = append(c.Evaluations[name], Point{e.Step, e.TrainingSeconds, v})
		}
	}
	return all, nil
}

// At is a place between two evaluations.
type At struct {
	Step    Number `json:"step"`
	Seconds Number `json:"measured_seconds"`
}

// FirstReach is where a curve first reaches a value, interpolated linearly between two points; false if it never
// does. If the first point is beyond the value already, it counts: there was no evaluation before it.
func FirstReach(curve []Point, value float64, higher bool) (At, bool) {
	reached := func(p Point) bool { return higher && p.Value >= value || !higher && p.Value <= value }
	i := slices.IndexFunc(curve, reached)
	if i < 0 {
		return At{}, false
	}
	b := curve[i]
	if i == 0 || math.IsNaN(curve[i-1].Value) || math.IsInf(curve[i-1].Value, 0) || b.Value == curve[i-1].Value {
		return At{Number(b.Step), Number(b.Seconds)}, true
	}
	a := curve[i-1]
	f := (value - a.Value) / (b.Value - a.Value)
	between := func(x, y float64) Number { return Number(x + f*(y-x)) }
	return At{between(float64(a.Step), float64(b.Step)), between(a.Seconds, b.Seconds)}, true
}

// Thin averages neighbours until a curve has at most the given number of points. Each new point lies at the last step
// of those that it averages, so that curves with the same steps are thinned alike.
func Thin(curve []Point, most int) []Point {
	size := (len(curve) + most - 1) / most
	if size <= 1 {
		return curve
	}
	var out []Point
	for part := range slices.Chunk(curve, size) {
		p := part[len(part)-1]
		p.Value = 0
		for _, q := range part {
			p.Value += q.Value / float64(len(part))
		}
		out = append(out, p)
	}
	return out
}

// TrainingLoss names the curve of the losses of steps.
const TrainingLoss = "training_loss"

// Curve is the curve of TrainingLoss, or of a metric of the evaluations; nil if there is none.
func (c Curves) Curve(name string) []Point {
	if name == TrainingLoss {
		return c.Loss
	}
	return c.Evaluations[name]
}
