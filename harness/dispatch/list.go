package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// The folder in an experiment's folder with what is submitted and what tasks print, and the names there.
const (
	folder         = "jobs"
	experimentFile = "experiment.json"
	listSuffix     = ".list.json"
	idSuffix       = ".id" // of a list that was submitted: the array's id
)

// mostList is the size of a list that is read: a run takes about a kilobyte.
const mostList = 64 * bounded.MiB

// saved is an experiment as data.
type saved struct {
	Recipe      string // YAML, resolved
	Arms        []experiment.Arm
	FirstSeed   uint64
	Seeds       int
	Plan        recipe.Plan
	Noise       bool
	Dir         string // as it was named in the working folder
	Work        string // the working folder, to which data files are relative
	AllowChange bool
	SaveModel   bool
	Index       string
	Transport   host.Transport
	Settings    Settings
}

// list is what the tasks of an array train.
type list struct {
	Experiment saved
	Files      map[string]int64 // that must be there, in the experiment's folder, with their sizes
	Runs       []listed
}

// listed is a run of a list.
type listed struct {
	experiment.Planned
	Identity results.Identity
}

// save describes an experiment.
func save(e *experiment.Experiment, settings Settings) (saved, error) {
	var text bytes.Buffer
	if err := e.Recipe.Write(&text); err != nil {
		return saved{}, err
	}
	work, err := os.Getwd()
	if err != nil {
		return saved{}, err
	}
	return saved{Recipe: text.String(), Arms: e.Arms, FirstSeed: e.FirstSeed, Seeds: e.Seeds, Plan: e.Plan, Noise: e.Noise, Dir: e.Dir,
		Work: work, AllowChange: e.AllowChange, SaveModel: e.SaveModel, Index: e.Index, Transport: e.Transport,
		Settings: settings}, nil
}

// experiment is what was saved.
func (s *saved) experiment(from string) (experiment.Experiment, error) {
	r, err := recipe.ParseResolved(from, []byte(s.Recipe))
	return experiment.Experiment{Recipe: r, Arms: s.Arms, FirstSeed: s.FirstSeed, Seeds: s.Seeds, Plan: s.Plan, Noise: s.Noise, Dir: s.Dir,
		AllowChange: s.AllowChange, SaveModel: s.SaveModel, Index: s.Index, Transport: s.Transport}, err
}

// Submitted reports whether runs were submitted in a folder.
func Submitted(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, folder, experimentFile))
	return err == nil
}

// Load reads the experiment that was submitted in a folder, so that it goes on. It changes the working folder to the one
// in which the experiment was begun: paths of data are relative to that.
func Load(dir string) (experiment.Experiment, Settings, error) {
	path := filepath.Join(dir, folder, experimentFile)
	var s saved
	if err := readJSON(path, &s); err != nil {
		return experiment.Experiment{}, Settings{}, fmt.Errorf("no runs were submitted in %s: %w", dir, err)
	}
	e, err := s.experiment(path)
	if err == nil {
		err = os.Chdir(s.Work)
	}
	e.Resume = true
	return e, s.Settings, err
}

// index is the index that a task on another machine may write to: a server's.
func (s *saved) index() string {
	if index.IsPostgres(s.Index) {
		return s.Index
	}
	return ""
}

// readList reads a list, and waits until it and the files that it names are there: a file system that machines share may
// show late what another one wrote.
func readList(ctx context.Context, path string, patience time.Duration) (*list, error) {
	end := time.Now().Add(patience)
	for {
		var l list
		err := readJSON(path, &l)
		if err == nil {
			err = l.missing()
		}
		if err == nil {
			return &l, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			return nil, fmt.Errorf("%w (the file system must be one that all machines share)", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(patience / 60):
		}
	}
}

// missing returns an error for a file that is not there, or not whole.
func (l *list) missing() error {
	for name, size := range l.Files {
		info, err := os.Stat(filepath.Join(l.Experiment.Dir, name))
		if err != nil {
			return err
		}
		if info.Size() < size {
			return fmt.Errorf("%s has %d bytes, want %d: %w", name, info.Size(), size, fs.ErrNotExist)
		}
	}
	return nil
}

func readJSON(path string, v any) error {
	text, err := bounded.ReadFile(path, mostList)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(v)
	})
}
