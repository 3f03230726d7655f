package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/filename"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// dataFolder is where an experiment keeps data that it makes itself, for all of its runs.
const dataFolder = "data"

// begin creates the folder of the experiment and opens its data there.
func (s *Session) begin(ctx context.Context, what string) (err error) {
	if s.Dir == "" {
		if s.Resume {
			return errors.New("the experiment is to go on, and has no folder")
		}
		name, err := filename.Join("runs", s.Recipe.Name+"-"+time.Now().Format("20060102-150405"))
		if err != nil {
			return err
		}
		if err := s.makeFolder(filepath.Dir(name)); err != nil {
			return err
		}
		if s.Dir, err = NewFolder(name); err != nil {
			return err
		}
		s.made = append(s.made, s.Dir)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.tidy())
		}
	}()
	dir := filepath.Join(s.Dir, dataFolder)
	if err := s.makeFolder(dir); err != nil {
		return err
	}
	if !s.joins {
		if err := durable.RemoveLeftovers(s.Dir, leftoverAge); err != nil {
			return err
		}
	}
	for _, n := range s.Recipe.Notes {
		s.Observe.note("%s", n)
	}
	s.Observe.note("recipe %s, %s in %s", s.Recipe.Name, what, s.Dir)
	s.Observe.tell(Opened{s.Dir})
	unlock, err := s.lockData(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if !s.joins {
		if err := durable.RemoveLeftovers(dir, 0); err != nil {
			return err
		}
	}
	s.data, err = train.OpenData(s.Recipe, dir, func(what string) { s.Observe.note("%s", what) })
	if errors.Is(err, durable.ErrDiffers) {
		err = hint.With(fmt.Errorf("%s holds the data of other runs: %w", s.Dir, err),
			"name another folder with --out; if no run there is to be kept, remove %s", hint.Quote(s.Dir))
	}
	return err
}

// makeFolder creates a folder with those above it, and remembers which of them were not there.
func (s *Session) makeFolder(dir string) error {
	var missing []string
	for path := dir; ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			break
		}
		missing = append(missing, path)
	}
	slices.Reverse(missing)
	s.made = append(s.made, missing...)
	return os.MkdirAll(dir, 0o777)
}

// leftoverAge is far longer than the writing of any file takes that several processes may write in one folder.
const leftoverAge = time.Hour

// lockData takes the lock of a data folder, and waits for it as long as another process makes the data there: several may
// work in one folder, each on runs of its own, but they make the data one after the other.
//
// Processes that join an experiment only read the data, all at once.
func (s *Session) lockData(ctx context.Context, data string) (unlock func() error, err error) {
	lock := durable.Lock
	if s.joins {
		lock = durable.LockShared
	}
	for told := false; ; told = true {
		unlock, err := lock(filepath.Join(data, "lock"))
		if !errors.Is(err, durable.ErrLocked) {
			return unlock, err
		}
		if !told {
			s.Observe.note("another process makes the data in %s: waiting for it", s.Dir)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tidy removes the folders that were made for nothing: they hold no run, and at most data that can be made again.
func (s *Session) tidy() error {
	made := s.made
	s.made = nil
	if len(made) == 0 {
		return nil
	}
	if runs, err := results.Find(s.Dir); err != nil || len(runs) > 0 {
		return err
	}
	var errs []error
	for _, dir := range slices.Backward(made) {
		if dir == filepath.Join(s.Dir, dataFolder) {
			errs = append(errs, os.RemoveAll(dir))
		} else {
			_ = os.Remove(dir) // unless somebody put something there
		}
	}
	return errors.Join(errs...)
}

// NewFolder creates a folder that did not exist: name itself, or name with a number appended.
func NewFolder(name string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		path := name
		if n > 1 {
			path = fmt.Sprintf("%s-%d", name, n)
		}
		if err := os.Mkdir(path, 0o777); !errors.Is(err, fs.ErrExist) {
			return path, err
		}
	}
}
