package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"

	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/index"
	"harness.invalid/results/scoring"
	"harness.invalid/results/statistics"
)

// tuned is a field of the recipe that a search changes: a range, or a list of values.
type tuned struct {
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Scaling string  `json:"scaling"` // linear or log
	Values  []any   `json:"feasible_points"`
}

// searchSpace are the fields by their paths.
type searchSpace map[string]tuned

// readSpace reads AlgoPerf's search space: an object of {"min", "max", "scaling"} or {"feasible_points"} by the path of the field.
func readSpace(path string) (searchSpace, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var s searchSpace
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("search space %s: %w", path, err)
	}
	if len(s) == 0 {
		return nil, fmt.Errorf("search space %s has no field", path)
	}
	for name, f := range s {
		switch {
		case len(f.Values) > 0 && f.Scaling == "" && f.Min == 0 && f.Max == 0:
		case len(f.Values) > 0:
			err = errors.New("it has feasible_points and a range as well")
		case f.Scaling != "linear" && f.Scaling != "log":
			err = fmt.Errorf("scaling is %q, want linear or log", f.Scaling)
		case !(f.Min < f.Max) || math.IsInf(f.Max-f.Min, 0):
			err = fmt.Errorf("min %g is not below max %g", f.Min, f.Max)
		case f.Scaling == "log" && f.Min <= 0:
			err = fmt.Errorf("min is %g, want more than 0 on a log scale", f.Min)
		}
		if err != nil {
			return nil, fmt.Errorf("search space %s: %s: %w", path, name, err)
		}
	}
	return s, nil
}

// trials are points of the space, as overrides of the recipe: Halton's sequence, scrambled by a seed, so that any number of them is spread evenly.
// Source: Owen 2017, A randomized Halton algorithm in R (arXiv:1706.02808); AlgoPerf's external tuning draws quasi-random trials as well.
func (s searchSpace) trials(n int, seed uint64) [][]string {
	names := slices.Sorted(maps.Keys(s))
	points := mat.NewDense(n, len(names), nil)
	samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(len(names), nil), Src: rand.NewPCG(seed, 0)}.Sample(points)
	all := make([][]string, n)
	for i := range all {
		for j, name := range names {
			all[i] = append(all[i], name+"="+s[name].at(points.At(i, j)))
		}
	}
	return all
}

// at is the value at a place between 0 and 1.
func (f tuned) at(u float64) string {
	if len(f.Values) > 0 {
		v := f.Values[min(int(u*float64(len(f.Values))), len(f.Values)-1)]
		if text, ok := v.(string); ok {
			return text
		}
		text, _ := json.Marshal(v) // it came out of JSON
		return string(text)
	}
	v := f.Min + u*(f.Max-f.Min)
	if f.Scaling == "log" {
		v = f.Min * math.Pow(f.Max/f.Min, u)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// trial is what came out of one point of the space.
type trial struct {
	Trial    int            `json:"trial"`
	Settings []string       `json:"settings"`
	Seeds    int            `json:"seeds"`
	Reached  int            `json:"reached"` // runs that reached the target
	Steps    results.Number `json:"steps_to_target"`
	Seconds  results.Number `json:"measured_seconds_to_target"` // median over seeds; Infinity: not reached
	Final    results.Number `json:"final"`                      // mean of the metric at the end
	Runs     []*results.Run `json:"-"`
}

func newTune() *cobra.Command {
	var t training
	var backend, optimizer, space, format string
	var count int
	var searchSeed uint64
	cmd := &cobra.Command{
		Use:   "tune --backend B --space FILE",
		Short: "Search settings of a recipe by quasi-random trials",
		Long: `Tune trains a recipe with settings from a declared space, one trial after the other, each with the same seeds, and ranks them by the steps to the
target of the recipe's last phase that has one (the median over seeds), then by its metric at the end. The space is a file in AlgoPerf's format, with the
paths of recipe fields as names:

  {"phases.*.schedule.learning_rate": {"min": 1e-4, "max": 1e-2, "scaling": "log"},
   "phases.*.global_batch": {"feasible_points": [16, 32]}}

The points are Halton's sequence, scrambled by --search-seed, so that any number of trials is spread evenly. Each trial has a folder in --out, which
--resume goes on with. Scores of the best trial are those that it was chosen by: judge it with seeds that the search did not use.`,
		Example: `  harness tune --backend gpu-ref --recipe quick --optimizer lamb --space space.json --trials 5`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			switch {
			case backend == "" || space == "":
				return withHint(errors.New("--backend and --space are needed"), "harness tune --backend gpu-ref --space space.json")
			case count < 1 || t.Seeds < 1:
				return fmt.Errorf("--trials is %d and --seeds is %d, want at least 1", count, t.Seeds)
			case t.Resume && t.Dir == "":
				return errors.New("--resume needs --out, the folder of the trials to go on with")
			}
			s, err := readSpace(space)
			if err != nil {
				return err
			}
			points := s.trials(count, searchSeed)
			for _, p := range points { // a bad field ends the search before it began
				if _, err := recipe.Load(t.source.Recipe, append(slices.Clone(t.source.Set), p...)...); err != nil {
					return err
				}
			}
			if t.Dir == "" {
				if t.Dir, err = experiment.NewFolder(filepath.Join("runs", "tune-"+time.Now().Format("20060102-150405"))); err != nil {
					return err
				}
			}
			p := newProgress(cmd.ErrOrStderr(), t.quiet)
			defer p.close()
			var done []trial
			metric := ""
			for i, point := range points {
				one := t
				one.source.Set, one.Dir = append(slices.Clone(t.source.Set), point...), filepath.Join(t.Dir, fmt.Sprintf("trial-%03d", i+1))
				if err := one.load(); err != nil {
					return err
				}
				one.Index = index.Locate(t.store)
				p.say("trial %d of %d: %v", i+1, count, point)
				one.Arms, one.Observe = []experiment.Arm{experiment.ParseArm(backend, optimizer)}, p.observe
				trained, err := experiment.Run(cmd.Context(), one.Experiment)
				if err != nil {
					return fmt.Errorf("trial %d: %w", i+1, advise(err))
				}
				out := trial{Trial: i + 1, Settings: point, Runs: trained.Runs}
				if metric, err = out.sumUp(one.Recipe); err != nil {
					return err
				}
				done = append(done, out)
			}
			rank(done, metric)
			if err := durable.WriteFile(filepath.Join(t.Dir, "tuning.json"), func(w io.Writer) error { return writeJSON(w, done) }); err != nil {
				return err
			}
			if f == report.JSON {
				return writeJSON(cmd.OutOrStdout(), done)
			}
			return printSheet(cmd, tuneSheet(done, metric), f)
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().StringVar(&backend, "backend", "", "backend, NAME or NAME:PRECISION")
	cmd.Flags().StringVar(&optimizer, "optimizer", "", "optimizer (default: the recipe's)")
	cmd.Flags().StringVar(&space, "space", "", "search space, JSON")
	cmd.Flags().IntVar(&count, "trials", 5, "number of trials")
	cmd.Flags().Uint64Var(&searchSeed, "search-seed", 1, "seed of the points")
	cmd.Flags().IntVar(&t.Seeds, "seeds", 1, "seeds of each trial")
	cmd.Flags().Uint64Var(&t.FirstSeed, "seed", 1, "the first seed")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	t.complete(cmd)
	return cmd
}

// sumUp takes the runs of a trial together and returns the metric that it is ranked by.
func (t *trial) sumUp(r *recipe.Recipe) (metric string, err error) {
	races, err := scoring.Races(t.Runs, "")
	if err != nil {
		return "", err
	}
	race := races[0]
	t.Seeds, t.Reached = len(race.Steps), race.Reached()
	t.Steps, t.Seconds = statistics.NewTimes(race.Steps, 0.95).Median, statistics.NewTimes(race.Seconds, 0.95).Median
	for _, p := range r.Phases {
		if p.Target == nil {
			continue
		}
		metric = p.Target.Metric
		var values []float64
		for _, run := range t.Runs {
			if run.Result == nil {
				continue
			}
			if v, ok := run.Result.Metrics[p.Name+"."+metric]; ok {
				values = append(values, v)
			}
		}
		t.Final = statistics.NewSample(values).Mean
	}
	return metric, nil
}

// rank sorts trials, the best first: by steps to the target, then by the metric at the end. One that diverged is last.
func rank(list []trial, metric string) {
	m, _ := recipe.MetricNamed(metric)
	slices.SortStableFunc(list, func(a, b trial) int {
		better := func(a, b trial) bool {
			if a.Steps != b.Steps {
				return a.Steps < b.Steps
			}
			x, y := float64(a.Final), float64(b.Final)
			switch {
			case math.IsNaN(x):
				return false
			case math.IsNaN(y):
				return true
			}
			return m.Higher && x > y || !m.Higher && x < y
		}
		switch {
		case better(a, b):
			return -1
		case better(b, a):
			return 1
		}
		return 0
	})
}

func tuneSheet(list []trial, metric string) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "trial", Right: true}}}
	for _, set := range list[0].Settings {
		name, _, _ := strings.Cut(set, "=")
		s.Columns = append(s.Columns, report.Column{Name: name, Right: true})
	}
	s.Columns = append(s.Columns, report.Column{Name: "reached", Right: true}, report.Column{Name: "steps to target", Key: "steps_to_target", Right: true},
		report.Column{Name: "measured seconds", Key: "measured_seconds_to_target", Right: true}, report.Column{Name: metric, Right: true})
	for _, t := range list {
		row := report.Texts(strconv.Itoa(t.Trial))
		for _, set := range t.Settings {
			_, value, _ := strings.Cut(set, "=")
			row = append(row, report.Cell{Text: value})
		}
		row = append(row, report.Texts(fmt.Sprintf("%d of %d", t.Reached, t.Seeds), fmt.Sprintf("%.6g", float64(t.Steps)), fmt.Sprintf("%.4g", float64(t.Seconds)), fmt.Sprintf("%.5g", float64(t.Final)))...)
		s.Rows = append(s.Rows, row)
	}
	return s
}
