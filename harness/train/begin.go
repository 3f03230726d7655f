package train

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"harness.invalid/core/checkpoint"
	"harness.invalid/harness/hint"
	"harness.invalid/results"
)

// begin opens the record, and for a run that is resumed the checkpoint to go on from, if there is one.
func (r *run) begin() (*checkpoint.Checkpoint, error) {
	r.outcome.Started = time.Now().UTC()
	if !r.Resume {
		return nil, r.create()
	}
	before, err := results.Open(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, r.create()
	}
	if err != nil {
		return nil, err
	}
	if err := r.Continues(before); err != nil {
		return nil, err
	}
	changes, err := r.Changes(before)
	if err != nil {
		return nil, err
	}
	c, damaged, err := checkpoint.Latest(before.Checkpoints())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// It broke off before the first one. Nothing of its record is kept.
		r.record, err = results.Resume(r.Dir, results.Mark{})
	case errors.Is(err, checkpoint.ErrNoneIntact):
		err = hint.With(fmt.Errorf("run %s cannot go on: %w", r.Dir, err),
			"put back a copy of one of them, or train the run anew with another --out; nothing of it was changed")
	case err == nil:
		err = r.restoreRun(c)
	}
	if errors.Is(err, results.ErrDamaged) {
		err = hint.With(fmt.Errorf("the run cannot go on: %w", err),
			"put back a copy of that file, or train the run anew with another --out; nothing of it was changed")
	}
	if err == nil {
		err = r.goOn(changes, damaged)
	}
	if err != nil && c != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, err
}

func (r *run) create() (err error) {
	r.record, err = results.Create(r.Dir, r.Identity, r.Recipe, r.Environment)
	r.created = err == nil
	return err
}

// goOn records in which environment a run is resumed, and what it could not use.
func (r *run) goOn(changes []string, damaged []error) error {
	if err := r.record.Segment(results.Segment{After: r.done, Changes: changes, Environment: r.Environment}); err != nil {
		return errors.Join(err, r.record.Close())
	}
	if len(changes) > 0 {
		r.note("after step %d the run went on with other bits: %s", r.done, strings.Join(changes, "; "))
	}
	for _, d := range damaged {
		r.note("a checkpoint was not used: %v", d)
	}
	return nil
}
