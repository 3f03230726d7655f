package experiment

import (
	"fmt"
	"strings"

	"harness.invalid/harness/train"
)

// Event is something that happened: a Note, RunStarted, RunAdvanced, RunEnded or StepLocked.
type Event any

// Observer is told what happens. Calls may come from several goroutines at once and should return soon.
type Observer func(Event)

// Note is a line for people: what is about to take time, what a plugin printed, what went wrong without stopping
// the experiment.
type Note struct{ Text string }

// RunStarted says that a run is about to be trained.
type RunStarted struct{ Run string }

// RunAdvanced says how far a run is.
type RunAdvanced struct {
	Run string
	train.Event
}

// RunEnded follows every RunStarted, whether or not the run was completed.
type RunEnded struct{ Run string }

// StepLocked says that a step of Lockstep was done.
type StepLocked struct{ Step, Steps int }

// note tells the observer, if there is one.
func (o Observer) note(format string, args ...any) { o.tell(Note{fmt.Sprintf(format, args...)}) }

func (o Observer) tell(e Event) {
	if o != nil {
		o(e)
	}
}

// Write passes on what plugins print, one whole line a call.
func (o Observer) Write(line []byte) (int, error) {
	o.note("%s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
