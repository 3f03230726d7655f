package tuning

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
)

// Search says which trials are trained, and how.
type Search struct {
	Experiment experiment.Experiment // of every trial, without a recipe; its Dir gets a folder for each trial; "": a new one in runs
	Source     experiment.Source     // of the recipe that the points change
	Space      Space
	Trials     int
	Seed       uint64 // of the points
}

// Outcome is a search that came to its end.
type Outcome struct {
	Dir    string
	Trials []Trial // the best first
	Metric string  // that trials are ranked by when they reach the target after the same number of steps
}

// Run trains the trials one after the other, ranks them and leaves tuning.json in the search's folder. A recipe that
// a point makes invalid ends the search before the first trial.
func (s Search) Run(ctx context.Context) (*Outcome, error) {
	points := s.Space.Points(s.Trials, s.Seed)
	for _, p := range points {
		if _, err := recipe.Load(s.Source.Recipe, slices.Concat(s.Source.Set, p)...); err != nil {
			return nil, err
		}
	}
	out := &Outcome{Dir: s.Experiment.Dir}
	if out.Dir == "" {
		var err error
		if out.Dir, err = experiment.NewFolder(filepath.Join("runs", "tune-"+time.Now().Format("20060102-150405"))); err != nil {
			return nil, err
		}
	}
	for i, point := range points {
		if err := s.trial(ctx, out, i, point); err != nil {
			return nil, err
		}
	}
	rank(out.Trials, out.Metric)
	return out, durable.WriteFile(filepath.Join(out.Dir, "tuning.json"), out.WriteJSON)
}

// trial trains one point and adds it to the outcome.
func (s Search) trial(ctx context.Context, out *Outcome, i int, point []string) error {
	source, e := s.Source, s.Experiment
	source.Set = slices.Concat(source.Set, point)
	e.Dir = filepath.Join(out.Dir, fmt.Sprintf("trial-%03d", i+1))
	var err error
	if e.Recipe, err = experiment.Load(source); err != nil {
		return err
	}
	if e.Observe != nil {
		e.Observe(experiment.Note{Text: fmt.Sprintf("trial %d of %d: %v", i+1, s.Trials, point)})
	}
	trained, err := experiment.Run(ctx, e)
	if err != nil {
		return fmt.Errorf("trial %d: %w", i+1, err)
	}
	t := Trial{Trial: i + 1, Settings: point}
	if out.Metric, err = t.sumUp(e.Recipe, trained.Runs); err != nil {
		return err
	}
	out.Trials = append(out.Trials, t)
	return nil
}

// WriteJSON writes the trials, the best first.
func (o *Outcome) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(o.Trials)
}
