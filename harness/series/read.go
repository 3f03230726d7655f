package series

import (
	"fmt"
	"maps"
	"math"

	"harness.invalid/results"
)

// Read reads the record of a run, which may be in progress.
func Read(run *results.Run) (*Record, error) { return ReadMeans(run, 1) }

// ReadMeans is Read with one point for so many steps of a phase, and as much less memory: it has the place of the last of
// them and the means of their quantities, but no parts. The run keeps its curves (results.Run.Curves), which come from
// the same lines.
func ReadMeans(run *results.Run, every int) (*Record, error) {
	r := &reader{Record: &Record{Run: run, Every: every}, at: Point{Modelled: math.NaN()}}
	fail := func(err error) (*Record, error) { return nil, fmt.Errorf("run %s: %w", run.Dir, err) }
	for e, err := range run.Evaluations() {
		if err != nil {
			return fail(err)
		}
		r.evaluations = append(r.evaluations, e)
	}
	if err := run.Trace(r.step); err != nil {
		return fail(err)
	}
	r.close()
	r.before(math.MaxInt)
	return r.Record, nil
}

// reader makes a record of steps and evaluations.
type reader struct {
	*Record
	evaluations         []results.Evaluation // that are still to be placed
	at                  Point                // where the run is
	evaluated, modelled float64              // seconds
	group               int                  // steps in the last point
}

// before places the evaluations that came before a step.
func (r *reader) before(total int) {
	for len(r.evaluations) > 0 && r.evaluations[0].TotalStep < total {
		e := r.evaluations[0]
		r.evaluations = r.evaluations[1:]
		r.evaluated += e.MeasuredSeconds
		r.Evaluations = append(r.Evaluations, Point{
			Phase: e.Phase, Step: e.Step, Total: e.TotalStep, Samples: r.at.Samples, Measured: r.at.Measured, Modelled: r.at.Modelled,
			Wall: r.at.Measured + r.evaluated, Values: e.Metrics, Count: e.Sequences,
		})
	}
}

// step adds a step to the last point, or as a point of its own.
func (r *reader) step(s *results.Step) {
	r.before(s.TotalStep)
	seconds := s.MeasuredSeconds[results.TotalSeconds]
	r.at.Samples += int64(s.Sequences)
	r.at.Measured += seconds
	if r.modelled += s.ModelledSeconds; s.ModelledSeconds == 0 {
		r.modelled = math.NaN() // time that nobody models
	}
	r.at.Modelled = r.modelled
	p := Point{
		Phase: s.Phase, Step: s.Step, Total: s.TotalStep, Samples: r.at.Samples, Measured: r.at.Measured, Modelled: r.at.Modelled,
		Wall: r.at.Measured + r.evaluated, Count: s.Sequences, Skipped: !s.Finite,
	}
	r.Trained++
	norm := float64(s.GradientNorm)
	if p.Skipped {
		r.Skipped++
		norm = math.NaN() // recorded as 0, since nobody took it
	}
	if r.continues(p) {
		last := &r.Steps[len(r.Steps)-1]
		p.Values, p.Count, p.Skipped = last.Values, p.Count+last.Count, p.Skipped || last.Skipped
		*last = p
	} else {
		r.close()
		p.Values = make(map[string]float64, 5+len(s.Metrics))
		if r.Every == 1 {
			p.Parts = maps.Clone(s.MeasuredSeconds)
		}
		r.Steps = append(r.Steps, p)
	}
	r.group++
	add := func(name string, v float64) {
		if r.group > 1 {
			v += p.Values[name]
		}
		p.Values[name] = v
	}
	add(GradientNorm, norm)
	add(LossScale, float64(s.LossScale))
	add(LearningRate, float64(s.LearningRate))
	add(StepSeconds, seconds)
	if s.ModelledSeconds > 0 {
		add(ModelledStepSeconds, s.ModelledSeconds)
	}
	for name, v := range s.Metrics {
		add(name, v)
	}
}

// continues reports whether a step belongs into the last point. Points of all runs cover the same steps.
func (r *reader) continues(p Point) bool {
	if len(r.Steps) == 0 || r.group == 0 {
		return false
	}
	last := &r.Steps[len(r.Steps)-1]
	return last.Phase == p.Phase && (last.Step-1)/r.Every == (p.Step-1)/r.Every
}

// close makes means of the sums in the last point.
func (r *reader) close() {
	if r.group > 1 {
		values := r.Steps[len(r.Steps)-1].Values
		for name := range values {
			values[name] /= float64(r.group)
		}
	}
	r.group = 0
}
