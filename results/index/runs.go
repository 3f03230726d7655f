package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"harness.invalid/results"
)

// Variable is the environment variable that names the index where nothing else does.
const Variable = "HARNESS_STORE"

// DefaultPath is the index where nothing names one. It lies in the folder of runs that were given no other.
var DefaultPath = filepath.Join("runs", "index.db")

// ErrMoved is returned where a folder holds another run than the index says.
var ErrMoved = errors.New("the index is out of date")

// Locate returns the index that location means: itself, or if it is empty that of $HARNESS_STORE, or DefaultPath.
func Locate(location string) string { return cmp.Or(location, os.Getenv(Variable), DefaultPath) }

// Use opens the index that location means (see Locate), hands it to do, and closes it. A new SQLite file is filled
// with the runs in its folder first.
func Use(ctx context.Context, location string, do func(x *Index) error) error {
	location = Locate(location)
	fresh := false
	if !IsPostgres(location) {
		_, err := os.Stat(location)
		fresh = errors.Is(err, fs.ErrNotExist)
	}
	x, err := Open(ctx, location)
	if err != nil {
		return err
	}
	if fresh {
		if _, err := x.Rebuild(ctx, filepath.Dir(location)); err != nil {
			return errors.Join(err, x.Close())
		}
	}
	return errors.Join(do(x), x.Close())
}

// OpenRuns opens the runs that refs mean: folders of runs, folders that hold several, or beginnings of ids in the
// index that location means. A run that is named twice is opened once.
func OpenRuns(ctx context.Context, location string, refs []string) ([]*results.Run, error) {
	var dirs []string
	for _, ref := range refs {
		found, err := folders(ctx, location, ref)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, found...)
	}
	var runs []*results.Run
	for _, d := range dirs {
		r, err := results.Open(d)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(runs, func(s *results.Run) bool { return s.ID == r.ID }) {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// OpenRun opens the one run that ref means; see OpenRuns.
func OpenRun(ctx context.Context, location, ref string) (*results.Run, error) {
	runs, err := OpenRuns(ctx, location, []string{ref})
	if err != nil {
		return nil, err
	}
	if len(runs) != 1 {
		return nil, fmt.Errorf("%s holds %d runs, want one: name its folder or its id", ref, len(runs))
	}
	return runs[0], nil
}

// folders returns the folders of the runs that ref means, on this machine.
func folders(ctx context.Context, location, ref string) (dirs []string, err error) {
	if info, err := os.Stat(ref); err == nil && info.IsDir() {
		found, err := results.Find(ref)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s holds no run", ref)
		}
		return found, err
	}
	err = Use(ctx, location, func(x *Index) error {
		e, err := x.Find(ctx, ref)
		if err != nil {
			return err
		}
		if !x.Here(e) {
			return fmt.Errorf("run %s: its folder %s is on %s", e.ID, e.Dir, e.Host)
		}
		dirs = []string{e.Dir}
		return nil
	})
	return dirs, err
}

// Select returns the runs that refs name, or where refs is empty those that the filter where chooses.
func (x *Index) Select(ctx context.Context, refs []string, where string) ([]Entry, error) {
	if len(refs) == 0 {
		return x.List(ctx, where)
	}
	var list []Entry
	for _, ref := range refs {
		e, err := x.Find(ctx, ref)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Delete removes a run from the index together with its folder. If the folder holds another run by now, Delete leaves
// both alone and returns ErrMoved.
func (x *Index) Delete(ctx context.Context, e Entry) error {
	r, err := results.Open(e.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case r.ID != e.ID:
		return fmt.Errorf("run %s: its folder %s now holds run %s: %w", e.ID, e.Dir, r.ID, ErrMoved)
	default:
		if err := results.Remove(e.Dir); err != nil {
			return err
		}
	}
	return x.Remove(ctx, e.ID)
}
