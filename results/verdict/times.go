package verdict

import (
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// PhaseTimes are the measured times of an arm in a phase, over its complete runs.
type PhaseTimes struct {
	Phase string `json:"phase"` // "": the run as a whole
	// Seconds of training, without evaluations and checkpoints. Those of the whole run include everything.
	Seconds statistics.Times `json:"measured_seconds"`
	// StepSeconds summarizes the runs' median steps, without the first ones (see statistics.WarmUp).
	StepSeconds *statistics.Times `json:"measured_step_seconds,omitempty"`
}

// PhaseTimesDifference compares the times of two arms in a phase.
type PhaseTimesDifference struct {
	Phase       string                      `json:"phase"`
	Seconds     statistics.TimesDifference  `json:"measured_seconds"`
	StepSeconds *statistics.TimesDifference `json:"measured_step_seconds,omitempty"`
}

// times are the measured seconds of training in a phase, run by run, and those of the runs' median steps. Phase -1
// is the run as a whole.
func (h *history) times(runs []RunSummary, phase int) (training, steps []float64) {
	for _, r := range runs {
		if phase < 0 {
			training = append(training, r.MeasuredSeconds[results.TotalSeconds])
			continue
		}
		if p, ok := r.Phase(h.Phases[phase].Name); ok {
			training = append(training, p.MeasuredSeconds[results.TrainingSeconds])
		}
		if c, ok := h.curves[runKey{r.Arm, r.Seed}]; ok && len(c[phase].StepSeconds) > 0 {
			seconds := c[phase].StepSeconds
			steps = append(steps, statistics.Median(seconds[statistics.WarmUp(len(seconds)):]))
		}
	}
	return training, steps
}

// unlikeMachines is why times are not tested.
const unlikeMachines = "the runs were trained on different machines"

// timesDifference compares all complete runs of two arms, paired or not; false if one has no times.
func (h *history) timesDifference(p *Pairing, phase int) (PhaseTimesDifference, bool) {
	trainingA, stepsA := h.times(h.RunsOf(p.Baseline), phase)
	trainingB, stepsB := h.times(h.RunsOf(p.Arm), phase)
	if len(trainingA) == 0 || len(trainingB) == 0 {
		return PhaseTimesDifference{}, false
	}
	d := PhaseTimesDifference{Phase: h.Phases[phase].Name, Seconds: statistics.CompareTimes(trainingA, trainingB, h.Alpha)}
	if len(stepsA) > 0 && len(stepsB) > 0 {
		d.StepSeconds = new(statistics.CompareTimes(stepsA, stepsB, h.Alpha))
	}
	if h.unlike(p.Baseline, p.Arm) {
		d.Seconds.Withhold(unlikeMachines)
		if d.StepSeconds != nil {
			d.StepSeconds.Withhold(unlikeMachines)
		}
	}
	return d, true
}
