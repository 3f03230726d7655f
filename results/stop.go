package results

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"harness.invalid/core/durable"
)

// Stop is why a run stands short of its end. Its last line may be of a step that the last checkpoint does not have.
type Stop struct {
	Status Status    `json:"status"` // Stopped or Failed
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// mostReason is how much of a reason is kept: what a plugin says at its death may be long.
const mostReason = 16 << 10

// Stop records why training ended before the recipe did. The record stays open: a run that is resumed continues it, and
// Resume removes the reason.
func (w *Writer) Stop(s Stop) error {
	if len(s.Reason) > mostReason {
		s.Reason = strings.ToValidUTF8(s.Reason[:mostReason], "") + " ..."
	}
	return replaceJSON(w.Path(stopFile), s)
}

// readStop reads why a run stands; nil: nobody recorded it.
func (r *Run) readStop() error {
	var s Stop
	err := readJSON(r.Dir, stopFile, mostSettings, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r.Stop = &s
	return err
}

// Writing reports whether a process writes into the folder of a run.
func Writing(dir string) (bool, error) { return durable.Held(filepath.Join(dir, lockFile)) }

// State is where the run stands now, and why where that was recorded. A run without a result and without a Stop is
// Running while a process holds its folder, and BrokenOff otherwise: it was killed, or its machine went down. Where
// the lock cannot be asked for, it is Unfinished.
func (r *Run) State() (Status, string) {
	switch {
	case r.Result != nil:
		return r.Result.Status, r.Result.Error
	case r.Stop != nil:
		return r.Stop.Status, r.Stop.Reason
	}
	switch held, err := Writing(r.Dir); {
	case err != nil:
		return Unfinished, ""
	case held:
		return Running, ""
	}
	return BrokenOff, "no process writes there any more, and none said why: it was killed, or its machine went down"
}
