package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/filename"
	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// Live writes what runs record for TensorBoard while they train, on this machine or on others that share the folder: it
// looks at the folders of the runs, and adds to an event file for each.
type Live struct {
	From string // the folder of the runs
	To   string // a folder for each run is made here
	// Every is the time between two looks. It grows with the time that a look takes, of which long records need more.
	Every time.Duration

	files map[string]*liveFile // by folder of the run
}

// liveFile is the event file of a run.
type liveFile struct {
	path               string
	size               int64
	read               [2]int64 // sizes of the records when they were read last
	steps, evaluations int      // that are in the file
	last               series.Point
}

// Follow looks until ctx ends, and then once more. A run that cannot be read or written is reported to problem, once for
// each reason, and tried again at the next look.
func (l *Live) Follow(ctx context.Context, problem func(error)) {
	l.files = map[string]*liveFile{}
	told := map[string]bool{}
	for {
		began := time.Now()
		for _, err := range l.look() {
			if !told[err.Error()] {
				told[err.Error()] = true
				problem(err)
			}
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(l.Every, 20*time.Since(began))):
		}
	}
}

// look adds what is new, and returns what went wrong.
func (l *Live) look() (problems []error) {
	dirs, err := results.Find(l.From)
	if err != nil {
		return []error{err}
	}
	for _, dir := range dirs {
		if err := l.add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // a run that begins has not all of its files yet
			problems = append(problems, fmt.Errorf("tensorboard: run %s: %w", dir, err))
		}
	}
	return problems
}

// add adds what is new of a run to its file.
func (l *Live) add(dir string) error {
	f := l.files[dir]
	if f == nil {
		f = &liveFile{}
		l.files[dir] = f
	}
	sizes, err := results.Sizes(dir)
	if err != nil || f.path != "" && sizes == f.read {
		return err
	}
	run, err := results.Open(dir)
	if err != nil {
		return err
	}
	r, err := series.Read(run)
	if err != nil {
		return err
	}
	if f.path == "" || !f.continuedBy(r) {
		if err := l.begin(f, r); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := writePoints(&b, r.Began(), merge(r.Steps[f.steps:], r.Evaluations[f.evaluations:])); err != nil {
		return err
	}
	if err := f.append(b.Bytes()); err != nil {
		return err
	}
	f.read, f.steps, f.evaluations = sizes, len(r.Steps), len(r.Evaluations)
	if f.steps > 0 {
		f.last = r.Steps[f.steps-1]
	}
	return nil
}

// continuedBy reports whether a record goes on from what is in the file: a run that went back to a checkpoint has other
// steps there, or fewer.
func (f *liveFile) continuedBy(r *series.Record) bool {
	if len(r.Steps) < f.steps || len(r.Evaluations) < f.evaluations {
		return false
	}
	if f.steps == 0 {
		return true
	}
	now := r.Steps[f.steps-1]
	return now.Total == f.last.Total && now.Measured == f.last.Measured
}

// begin begins a new file for a run, whose name follows those before in the order of the names, and removes them.
func (l *Live) begin(f *liveFile, r *series.Record) error {
	folder, err := filename.Join(l.To, r.Name())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	var name string
	for at := time.Now().Unix(); ; at++ {
		name = fmt.Sprintf("events.out.tfevents.%010d.harness", at)
		if _, err := os.Stat(filepath.Join(folder, name)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := removeEvents(folder, ""); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeVersion(&b, r.Began()); err != nil {
		return err
	}
	*f = liveFile{path: filepath.Join(folder, name)}
	return f.append(b.Bytes())
}

// append adds to the file, which a reader may have open, after what is known to be in it. It is flushed with the rest of
// the system's files: a run can be exported again.
func (f *liveFile) append(text []byte) error {
	out, err := durable.Append(f.path)
	if err != nil {
		return err
	}
	if err = out.Cut(f.size); err == nil {
		_, err = out.Write(text)
	}
	if err = errors.Join(err, out.Close()); err == nil {
		f.size += int64(len(text))
	}
	return err
}
