package tuning

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

// Run trains the trials, several at once where the experiment has an executor, ranks them and leaves tuning.json in the
// search's folder. A recipe that a point makes invalid ends the search before the first trial.
func (s Search) Run(ctx context.Context) (*Outcome, error) {
	points := s.Space.Points(s.Trials, s.Seed)
	out := &Outcome{Dir: s.Experiment.Dir}
	for _, p := range points {
		r, err := recipe.Load(s.Source.Recipe, slices.Concat(s.Source.Set, p)...)
		if err != nil {
			return nil, err
		}
		out.Metric = metric(r)
	}
	if out.Dir == "" {
		var err error
		if out.Dir, err = experiment.NewFolder(filepath.Join("runs", "tune-"+time.Now().Format("20060102-150405"))); err != nil {
			return nil, err
		}
	}
	out.Trials = make([]Trial, len(points))
	if observe := s.Experiment.Observe; observe != nil {
		var mu sync.Mutex
		s.Experiment.Observe = func(e experiment.Event) {
			mu.Lock()
			defer mu.Unlock()
			observe(e)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.atOnce())
	for i, point := range points {
		g.Go(func() error { return s.trial(ctx, out, i, point) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	rank(out.Trials, out.Metric)
	return out, durable.WriteFile(filepath.Join(out.Dir, "tuning.json"), out.WriteJSON)
}

// atOnce is how many trials are under way: one where this process trains, since they would take the processors from each
// other, and else as many as an executor is likely to have room for, since each holds its data.
func (s Search) atOnce() int {
	if s.Experiment.Executor == nil {
		return 1
	}
	return 16
}

// trial trains one point and puts it into the outcome.
func (s Search) trial(ctx context.Context, out *Outcome, i int, point []string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
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
	out.Trials[i] = Trial{Trial: i + 1, Settings: point}
	return out.Trials[i].sumUp(e.Recipe, trained.Runs)
}

// WriteJSON writes the trials, the best first.
func (o *Outcome) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(o.Trials)
}
