// Package benchmark runs all tasks of GLUE, CLUE or SQuAD on some backends with some seeds. A folder of data and a model
// flow in (Suite); an experiment for each task comes out, with the score of the benchmark by arm and seed (Outcome).
package benchmark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/train"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
	"harness.invalid/results/verdict"
)

// Suite says what is run.
type Suite struct {
	Name   string // glue, clue or squad
	Data   string // folder
	Model  string // folder
	Recipe string // for all tasks; empty: the built-in one of each
	Set    []string
	Only   []string // tasks; empty: all that have files
	Margin float64  // of the score, in points, within which arms are equivalent
	Submit bool     // answer the test files, for the benchmark's server
	// Experiment has arms, seeds and the folder; Prepare, if not nil, sets what each task's own needs.
	Experiment experiment.Experiment
	Prepare    func(*experiment.Experiment) error
}

// Cell is a task on an arm.
type Cell struct {
	Mean results.Number  `json:"mean"` // of the task's score over seeds, in %
	SD   *results.Number `json:"sd,omitempty"`
	Runs int             `json:"runs"`
	// Verdict is that on the primary metric of the task's recipe against the first arm; empty for the first arm.
	Verdict verdict.Decision `json:"verdict,omitempty"`
}

// Row is a task.
type Row struct {
	Task  string          `json:"task"`
	Arms  map[string]Cell `json:"arms"`
	Files []string        `json:"files,omitempty"` // answers for the server
}

// Outcome is what came of a suite.
type Outcome struct {
	Benchmark string   `json:"benchmark"`
	Arms      []string `json:"arms"`
	Tasks     []Row    `json:"tasks"`
	Missing   []string `json:"missing"` // tasks without files, or not asked for
	// Score is the benchmark's by arm, over the tasks that are there: the mean over seeds; empty for squad, which has none.
	Score map[string]Cell `json:"score"`
	// Verdicts are those on the score, paired by seed, of each arm against the first.
	Verdicts map[string]verdict.Answer `json:"verdicts,omitempty"`

	scores map[string]map[uint64]map[string]float64 // by arm, seed and task
}

// Tasks are those of a benchmark. MNLI's other genres are answered by the models of mnli.
func Tasks(name string) ([]tasks.Task, error) {
	switch b := tasks.Benchmark(strings.ToLower(name)); b {
	case tasks.GLUE, tasks.CLUE:
		return slices.DeleteFunc(tasks.Of(b), func(t tasks.Task) bool { return t.Name == "mnli-mm" }), nil
	case "squad":
		return slices.DeleteFunc(tasks.All(), func(t tasks.Task) bool { return t.Name != "squad" && t.Name != "squad2" }), nil
	}
	return nil, fmt.Errorf("no benchmark is named %q, want glue, clue or squad", name)
}

// planned is a task with its data.
type planned struct {
	task  tasks.Task
	files Files
}

// plan returns the tasks that are run, and the names of those without files, or not asked for.
func (s *Suite) plan() (all []planned, missing []string, err error) {
	list, err := Tasks(s.Name)
	if err != nil {
		return nil, nil, err
	}
	found, err := Find(list, s.Data)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range s.Only {
		t, err := tasks.Named(name)
		if err != nil {
			return nil, nil, err
		}
		if _, ok := found[t.Name]; !ok {
			return nil, nil, fmt.Errorf("%s has no files of %s to train and to evaluate on", s.Data, t.Name)
		}
		s.Only[i] = t.Name
	}
	missing = []string{}
	for _, t := range list {
		f, ok := found[t.Name]
		if !ok || len(s.Only) > 0 && !slices.Contains(s.Only, t.Name) {
			missing = append(missing, t.Name)
			continue
		}
		all = append(all, planned{t, f})
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s has no files of a task of %s: want a folder for each task, as harness data fetch %s makes them",
			s.Data, s.Name, s.Name)
	}
	return all, missing, nil
}

// experiment is that of a task.
func (s *Suite) experiment(p *planned) (experiment.Experiment, error) {
	tuning := experiment.FineTuning{Recipe: s.recipeOf(&p.task), Set: s.Set, Model: s.Model, Task: p.task.Name,
		Train: p.files.Train, Dev: p.files.Dev}
	e := s.Experiment
	r, err := tuning.Load()
	if err != nil {
		return e, err
	}
	e.Recipe, e.Dir = r, filepath.Join(s.Experiment.Dir, p.task.Name)
	e.SaveModel = e.SaveModel || p.files.Other != nil || s.Submit && p.files.Test != nil
	if _, err := os.Stat(e.Dir); err != nil {
		e.Resume = false // the task has not begun
	}
	if s.Prepare != nil {
		err = s.Prepare(&e)
	}
	return e, err
}

// Run runs the tasks one after the other. What is complete stays when the experiment is resumed.
func Run(ctx context.Context, s Suite) (*Outcome, error) {
	all, missing, err := s.plan()
	if err != nil {
		return nil, err
	}
	o := &Outcome{Benchmark: s.Name, Missing: missing, scores: map[string]map[uint64]map[string]float64{}}
	for _, p := range all {
		if err := o.task(ctx, &s, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.task.Name, err)
		}
	}
	return o, o.score(&s)
}

// Rehearsed is what a task would take.
type Rehearsed struct {
	Task string `json:"task"`
	experiment.Rehearsal
}

// Rehearse measures what Run would take, as experiment.Rehearse does.
func Rehearse(ctx context.Context, s Suite) ([]Rehearsed, error) {
	all, _, err := s.plan()
	if err != nil {
		return nil, err
	}
	var out []Rehearsed
	for _, p := range all {
		e, err := s.experiment(&p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.task.Name, err)
		}
		e.Dir = ""
		r, err := experiment.Rehearse(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.task.Name, err)
		}
		out = append(out, Rehearsed{p.task.Name, *r})
	}
	return out, nil
}

// recipeOf is the recipe of a task.
func (s *Suite) recipeOf(t *tasks.Task) string {
	switch {
	case s.Recipe != "":
		return s.Recipe
	case t.Benchmark == "":
		return "squad-base"
	}
	return string(t.Benchmark) + "-" + strings.ReplaceAll(t.Name, "-", "")
}

// task runs a task, and has its models answer what they were not trained for.
func (o *Outcome) task(ctx context.Context, s *Suite, p *planned) error {
	t, f := &p.task, &p.files
	e, err := s.experiment(p)
	if err != nil {
		return err
	}
	done, err := experiment.Run(ctx, e)
	if err != nil {
		return err
	}
	c, err := done.Compare()
	if err != nil {
		return err
	}
	row := Row{Task: t.Name, Arms: map[string]Cell{}}
	for _, run := range done.Runs {
		scores := evaluation.Scores{Metrics: run.Result.Phases[len(run.Result.Phases)-1].Metrics}
		o.add(run, t.Name, scores.TaskScore(t))
		if f.Other != nil {
			if err := o.other(ctx, run, e.Recipe, f.Other); err != nil {
				return err
			}
		}
		if s.Submit && f.Test != nil {
			dir := filepath.Join(run.Dir, "submission")
			if err := submit(ctx, run, e.Recipe, t, f.Test, dir); err != nil {
				return err
			}
			row.Files = append(row.Files, dir)
		}
	}
	for _, arm := range c.Arms {
		name := arm.Arm.String()
		if !slices.Contains(o.Arms, name) {
			o.Arms = append(o.Arms, name)
		}
		var values []float64
		for _, seed := range slices.Sorted(maps.Keys(o.scores[name])) {
			if v, ok := o.scores[name][seed][t.Name]; ok {
				values = append(values, v)
			}
		}
		row.Arms[name] = cellOf(values)
	}
	for _, p := range c.Comparisons {
		cell := row.Arms[p.Arm.String()]
		cell.Verdict = p.Verdict
		row.Arms[p.Arm.String()] = cell
	}
	o.Tasks = append(o.Tasks, row)
	return nil
}

func cellOf(values []float64) Cell {
	m := statistics.NewSample(values)
	return Cell{Mean: m.Mean, SD: m.SD, Runs: len(values)}
}

func (o *Outcome) add(run *results.Run, task string, score float64) {
	name := run.Arm().String()
	if o.scores[name] == nil {
		o.scores[name] = map[uint64]map[string]float64{}
	}
	if o.scores[name][run.Seed] == nil {
		o.scores[name][run.Seed] = map[string]float64{}
	}
	o.scores[name][run.Seed][task] = score
}

// answer has the model of a run answer the examples of a task.
func answer(ctx context.Context, run *results.Run, trained *recipe.Recipe, task string, files []string) (*evaluation.Data,
	*evaluation.Predictions, error) {
	r, err := experiment.FineTuning{Model: filepath.Join(run.Dir, train.ModelDir), Task: task}.LoadTrained()
	if err != nil {
		return nil, nil, err
	}
	arm, err := experiment.ArmOf(trained, run.Arm())
	if err != nil {
		return nil, nil, err
	}
	arm.Optimizer = ""
	return experiment.Predict(ctx, experiment.Prediction{Recipe: r, Arm: arm, Files: files})
}

// other scores a model of mnli on the other genres.
func (o *Outcome) other(ctx context.Context, run *results.Run, trained *recipe.Recipe, files []string) error {
	t, err := tasks.Named("mnli-mm")
	if err != nil {
		return err
	}
	data, predictions, err := answer(ctx, run, trained, t.Name, files)
	if err != nil {
		return err
	}
	scores, err := data.Score(predictions)
	if err != nil {
		return err
	}
	o.add(run, t.Name, scores.TaskScore(t))
	return nil
}

// submit writes the answers to the test examples in the format of the benchmark's server.
func submit(ctx context.Context, run *results.Run, trained *recipe.Recipe, t *tasks.Task, files []string, dir string) error {
	_, predictions, err := answer(ctx, run, trained, t.Name, files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return predictions.Save(func(name string) string { return filepath.Join(dir, t.Name+"."+name) })
}

// score computes the benchmark's score of each arm and seed, and compares the arms.
func (o *Outcome) score(s *Suite) error {
	b := tasks.Benchmark(strings.ToLower(s.Name))
	if b == "squad" {
		return nil
	}
	o.Score, o.Verdicts = map[string]Cell{}, map[string]verdict.Answer{}
	all := map[string]verdict.Scores{}
	for arm, bySeed := range o.scores {
		of := verdict.Scores{Seeds: slices.Sorted(maps.Keys(bySeed))}
		for _, seed := range of.Seeds {
			mean, _ := evaluation.BenchmarkScore(b, bySeed[seed])
			of.Values = append(of.Values, mean)
		}
		all[arm], o.Score[arm] = of, cellOf(of.Values)
	}
	for _, arm := range o.Arms[1:] {
		q := verdict.Question{Metric: s.Name + " score", Margin: s.Margin, Alpha: 0.05}
		a, err := verdict.OfScores(all[o.Arms[0]], all[arm], q)
		if err != nil {
			return errors.Join(fmt.Errorf("the score of %s against %s", arm, o.Arms[0]), err)
		}
		o.Verdicts[arm] = a
	}
	return nil
}
