package train

import (
	"fmt"
	"time"

	"harness.invalid/core/recipe"
)

// Event tells an observer how far a run has got.
type Event struct {
	Phase      string
	Step       int // done in the phase
	Steps      int // of the phase
	Loss       float64
	Skipped    int                // steps of the phase skipped so far
	Metrics    map[string]float64 // of an evaluation; nil for a step
	Throughput float64            // sequences per second, measured over the last steps; 0: not yet known
	Done       float64            // share of the run's work, 0 to 1
	Left       time.Duration      // estimate for the run; 0: not known yet
	Doubt      string             // reported before training begins; empty: a step or an evaluation is done
	Counted    bool               // steps are sequences of a prediction, which have no loss
}

// String is the event in words.
func (e Event) String() string {
	if e.Doubt != "" {
		return fmt.Sprintf("phase %s: %s", e.Phase, e.Doubt)
	}
	s := fmt.Sprintf("%s %d/%d", e.Phase, e.Step, e.Steps)
	if e.Metrics != nil {
		for _, m := range recipe.Metrics() {
			if v, ok := e.Metrics[m.Name]; ok {
				s += fmt.Sprintf("  %s %.4g", m.Name, v)
			}
		}
		return s
	}
	if !e.Counted {
		s += fmt.Sprintf("  loss %.3f", e.Loss)
	}
	if e.Skipped > 0 {
		s += fmt.Sprintf("  skipped %d", e.Skipped)
	}
	if e.Throughput > 0 {
		s += fmt.Sprintf("  %.0f seq/s", e.Throughput)
	}
	if e.Left > 0 {
		s += "  " + e.Left.Round(time.Second).String() + " left"
	}
	return s
}

// Observer receives the events of a run. Calls come from one goroutine and should return at once.
type Observer func(Event)

// work estimates how much of a run is done, in tokens trained on: apart from attention, the time of a step is
// proportional to them.
type work struct {
	total, done float64
	began       time.Time
	doneAtStart float64
	window      []mark // the last steps
}

type mark struct {
	at        time.Time
	sequences int
}

func tokens(p *recipe.Phase, steps int) float64 {
	return float64(steps) * float64(p.GlobalBatch) * float64(p.Length)
}

// start starts the clock. What a resumed run did before does not count towards the speed.
func (w *work) start() {
	w.began, w.doneAtStart = time.Now(), w.done
	w.window = w.window[:0]
}

// step counts a step and returns the throughput, the share of the work that is done and the time left.
func (w *work) step(p *recipe.Phase, sequences int) (throughput, share float64, left time.Duration) {
	now := time.Now()
	w.done += tokens(p, 1)
	if len(w.window) == 20 {
		w.window = append(w.window[:0], w.window[1:]...)
	}
	w.window = append(w.window, mark{now, sequences})
	if first := w.window[0]; len(w.window) > 1 {
		n := 0
		for _, m := range w.window[1:] {
			n += m.sequences
		}
		throughput = float64(n) / max(now.Sub(first.at).Seconds(), 1e-9)
	}
	share = w.done / w.total
	if fresh := w.done - w.doneAtStart; fresh > 0 {
		left = time.Duration(float64(now.Sub(w.began)) * (w.total - w.done) / fresh)
	}
	return throughput, share, left
}
