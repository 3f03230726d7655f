package train

import (
	"time"

	"harness.invalid/results"
)

// phaseTotals are what a phase adds up. Checkpoints carry them.
type phaseTotals struct {
	Step      int   `json:"step"`      // steps done
	Updates   int   `json:"updates"`   // steps that were not skipped
	Sequences int64 `json:"sequences"` // trained on; packed ones count one by one
	// Evaluated is the step of the last evaluation. A resumed run repeats an evaluation that was cut short.
	Evaluated int                `json:"evaluated"`
	Seconds   map[string]float64 `json:"seconds"` // measured, by part
	Target    *results.Reached   `json:"target,omitempty"`
	Best      *results.Best      `json:"best,omitempty"`
	Stale     int                `json:"stale,omitempty"`   // evaluations since the best one
	Stopped   bool               `json:"stopped,omitempty"` // early, after too many of them
}

// The parts of a phase's time that the host measures. The backend names the parts of "backend" itself.
const (
	partSetup      = "setup"
	partData       = "data" // waiting for a batch
	partBackend    = "backend"
	partOptimizer  = "optimizer"
	partCommit     = "commit"
	partEvaluation = "evaluation"
	partCheckpoint = "checkpoint"        // that training waited for
	partBeside     = "checkpoint.beside" // that were written while training went on
)

// lap adds the time since start to a part.
func (t *phaseTotals) lap(part string, start time.Time) {
	t.Seconds[part] += time.Since(start).Seconds()
}

// trainingSeconds is the measured time of the steps.
func (t *phaseTotals) trainingSeconds() float64 {
	return t.Seconds[partData] + t.Seconds[partBackend] + t.Seconds[partOptimizer] + t.Seconds[partCommit]
}

// finish adds the phase to the result of the run.
func (p *phase) finish(metrics map[string]float64) {
	p.Seconds["training"] = p.trainingSeconds()
	p.Seconds["total"] = p.Seconds["training"] + p.Seconds[partSetup] + p.Seconds[partEvaluation] + p.Seconds[partCheckpoint]
	skipped := p.Step - p.Updates
	p.outcome.AddPhase(results.PhaseResult{
		Name: p.recipe.Name, Steps: p.Step, Skipped: skipped, Sequences: p.Sequences,
		Metrics: metrics, Floors: p.set.floors(), MeasuredSeconds: p.Seconds, PeakMemoryBytes: p.peakMemory(), Target: p.Target, Best: p.Best,
		System: p.clock.system, ModelledSeconds: p.clock.seconds(p.Step), ModelledConfidence: (*results.Confidence)(p.clock.confidence),
	})
	if p.Stopped && p.Step < p.steps {
		p.note("phase %s: stopped after step %d of %d, since %d evaluations in a row were no better in %s",
			p.recipe.Name, p.Step, p.steps, p.Stale, p.recipe.Judge().Name)
	}
	if skipped*2 > p.Step {
		p.note("phase %s: %d of %d steps were skipped because a gradient was not finite; a smaller loss scale may help",
			p.recipe.Name, skipped, p.Step)
	}
	for _, n := range p.set.notes() {
		p.note("phase %s: %s", p.recipe.Name, n)
	}
}

// peakMemory is the most memory that each process has used so far, if the plugins know.
func (p *phase) peakMemory() map[string]int64 {
	if m, ok := p.Plugins.(interface{ PeakMemory() map[string]int64 }); ok {
		return m.PeakMemory()
	}
	return nil
}
