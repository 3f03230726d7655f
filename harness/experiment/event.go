package experiment

import (
	"fmt"
	"strings"
	"time"

	"harness.invalid/harness/train"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// Event is a Note, Opened, RunStarted, RunAdvanced, RunEnded, PairCompared or StepLocked.
type Event any

// Observer receives events. It may be called from several goroutines at once and should return quickly. Nil ignores
// them.
type Observer func(Event)

// Note is a line for people: what is about to take time, what a plugin printed, or what went wrong without stopping
// the experiment.
type Note struct{ Text string }

// Opened says in which folder the runs will be, before any of them begins.
type Opened struct{ Dir string }

// RunStarted precedes the training of a run.
type RunStarted struct{ Run string }

// RunAdvanced reports the progress of a run.
type RunAdvanced struct {
	Run string
	train.Event
}

// RunEnded follows every RunStarted, whether or not the run was completed.
type RunEnded struct{ Run string }

// PairCompared reports, from the second pair on, what an arm's pairs so far say of the primary metric.
type PairCompared struct {
	Arm, Baseline results.Arm
	Pairs         int
	Difference    verdict.Difference // with intervals at the levels of this look, or of the first one if that is to come
	Budget, Left  time.Duration      // 0: there is no budget
}

// StepLocked reports a finished step of Lockstep.
type StepLocked struct{ Step, Steps int }

// note reports a Note.
func (o Observer) note(format string, args ...any) { o.tell(Note{fmt.Sprintf(format, args...)}) }

func (o Observer) tell(e Event) {
	if o != nil {
		o(e)
	}
}

// Write reports what plugins print, one line per call.
func (o Observer) Write(line []byte) (int, error) {
	o.note("%s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
