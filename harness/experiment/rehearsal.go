package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Rehearsal is what an experiment would take: a few steps of every phase on every arm were trained, in a folder that is
// gone, and the rest is reckoned from them.
type Rehearsal struct {
	Recipe string           `json:"recipe"`
	Plan   string           `json:"plan"`
	Arms   []RehearsedArm   `json:"arms"`
	Start  *RehearsedArm    `json:"start,omitempty"` // the model that the runs start from, where it is not there yet
	Seeds  map[string]Takes `json:"seeds"`           // what so many seeds of all arms take: "first look" and "at most", or "all"
}

// RehearsedArm is what a run of an arm takes.
type RehearsedArm struct {
	Arm    string           `json:"arm"`
	Phases []RehearsedPhase `json:"phases"`
	Takes
	PeakMemoryBytes map[string]int64 `json:"peak_memory_bytes"` // measured, by process; empty: the system does not tell
}

// RehearsedPhase is what a phase of a run takes.
type RehearsedPhase struct {
	Phase             string  `json:"phase"`
	Steps             int     `json:"steps"`
	StepSeconds       float64 `json:"step_seconds"` // median of the steps that were measured
	Evaluations       int     `json:"evaluations"`
	EvaluationSeconds float64 `json:"evaluation_seconds"` // of one
}

// Takes are seconds on this machine, reckoned from measured steps, and bytes of disk.
type Takes struct {
	Runs      int     `json:"runs"`
	Seconds   float64 `json:"seconds"`
	DiskBytes int64   `json:"disk_bytes"`
}

// Steps of each phase that are measured, after one that is not, and sequences of an evaluation.
const (
	rehearsedSteps     = 4
	rehearsedSequences = 256
)

// Rehearse measures what Run would take. It trains nothing that is kept, and makes no folder but a temporary one.
func Rehearse(ctx context.Context, e Experiment) (_ *Rehearsal, err error) {
	if err := e.choosePlan(); err != nil {
		return nil, err
	}
	e.Index = ""
	s, err := prepare(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, n := range s.Recipe.Notes {
		s.Observe.note("%s", n)
	}
	dir, err := os.MkdirTemp("", "harness-rehearsal-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.data, err = train.OpenData(s.Recipe, dir, func(what string) { s.Observe.note("%s", what) }); err != nil {
		return nil, err
	}
	if err := s.model(ctx); err != nil {
		return nil, err
	}
	out := &Rehearsal{Recipe: s.Recipe.Name, Plan: s.Recipe.Verdict.Plan.String(), Seeds: map[string]Takes{}}
	for _, a := range s.Arms {
		r := rehearsed{Session: s, recipe: a.recipe(s.Recipe), arm: a, name: a.Spec().String(), seed: s.FirstSeed}
		of, err := r.measure(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		out.Arms = append(out.Arms, *of)
	}
	if err := s.rehearseStart(ctx, out, dir); err != nil {
		return nil, fmt.Errorf("start model: %w", err)
	}
	if all := s.seeds(); s.follows() && len(s.Arms) > 1 {
		out.Seeds["first look"], out.Seeds["at most"] = out.of(min(all, recipe.LeastSequential), s.Noise), out.of(all, s.Noise)
	} else {
		out.Seeds["all"] = out.of(all, s.Noise)
	}
	return out, nil
}

// of is what so many seeds take.
func (r *Rehearsal) of(seeds int, noise bool) (t Takes) {
	if r.Start != nil {
		t = r.Start.Takes
		t.Runs = 0
	}
	for i, a := range r.Arms {
		n := seeds
		if i == 0 && noise {
			n *= 2
		}
		t.Runs += n
		t.Seconds += float64(n) * a.Seconds
		t.DiskBytes += int64(n) * a.DiskBytes
	}
	return t
}

// rehearseStart measures the training of the start model, unless an experiment would find it.
func (s *Session) rehearseStart(ctx context.Context, out *Rehearsal, dir string) error {
	r := s.Recipe.StartRecipe()
	if r == nil {
		return nil
	}
	key, err := s.startKey(r)
	if err != nil {
		return err
	}
	if cache, err := startFolder(); err == nil {
		if m, err := (models{cache, key}).find(s.Observe); err == nil && m != nil {
			return nil
		}
	}
	of := rehearsed{
		Session: s, recipe: r, arm: Arm{Backend: startBackend, Precision: startPrecision}, name: "start model", seed: uint64(s.Recipe.Start.Seed),
		start: true,
	}
	out.Start, err = of.measure(ctx, dir)
	return err
}

// rehearsed is a run that is tried.
type rehearsed struct {
	*Session
	recipe *recipe.Recipe
	arm    Arm
	name   string
	seed   uint64
	start  bool // it is the start model, whose plugins are none of the session's
}

// measure trains the first steps of each phase, and reckons what all take.
func (r *rehearsed) measure(ctx context.Context, dir string) (*RehearsedArm, error) {
	short := *r.recipe
	short.Start, short.Phases = nil, slices.Clone(r.recipe.Phases)
	if r.start { // it has no verdict, without which a record is not read
		short.Verdict = recipe.Verdict{Alpha: r.Recipe.Verdict.Alpha, Plan: recipe.Plan{Kind: recipe.FixedPlan, MaxSeeds: 1}}
	}
	out := &RehearsedArm{Arm: r.name, Takes: Takes{Runs: 1}}
	shares := make([]float64, len(short.Phases)) // of an evaluation that is measured
	for i := range short.Phases {
		p := &short.Phases[i]
		steps, evaluated, err := r.data.Sizes(r.recipe, p, r.seed)
		if err != nil {
			return nil, err
		}
		evaluations := 1
		if every := p.Evaluation.Every; every > 0 {
			evaluations = (steps + every - 1) / every
		}
		out.Phases = append(out.Phases, RehearsedPhase{Phase: p.Name, Steps: steps, Evaluations: evaluations})
		p.Steps, p.Epochs, p.Target, shares[i] = min(steps, 1+rehearsedSteps), 0, nil, 1
		p.Evaluation.Every, p.Evaluation.Patience, p.Evaluation.KeepBest = 0, 0, false
		if evaluated > rehearsedSequences {
			p.Evaluation.Sequences = rehearsedSequences
			_, tried, err := r.data.Sizes(r.recipe, p, r.seed)
			if err != nil {
				return nil, err
			}
			shares[i] = float64(tried) / float64(evaluated)
		}
	}
	run, err := r.train(ctx, &short, filepath.Join(dir, fmt.Sprintf("run-%x", r.name)))
	if err != nil {
		return nil, err
	}
	return out, out.reckon(run, shares)
}

// train trains the short recipe into a folder.
func (r *rehearsed) train(ctx context.Context, short *recipe.Recipe, dir string) (_ *results.Run, err error) {
	job := r.job(r.arm, nil)
	job.Recipe, job.Seed, job.Dir, job.SaveModel = short, r.seed, dir, r.SaveModel && !r.start
	job.Observe = func(e train.Event) { r.Observe.tell(RunAdvanced{r.name, e}) }
	if job.Environment, err = r.environment(); err != nil {
		return nil, err
	}
	pool := r.pool
	if r.start {
		pool = processes.NewPool(processes.Options{Transport: r.Transport, Output: r.Observe})
		defer func() { err = errors.Join(err, pool.Close()) }()
	}
	plugins, err := pool.Take(ctx, r.arm.Backend)
	if err != nil {
		return nil, err
	}
	job.Plugins = plugins
	shown := r.arm.recorded(short)
	job.Identity = results.Identity{
		Recipe: short.Name, Fingerprint: short.Fingerprint(), DataDigest: r.data.Digest, Backend: shown.Backend, Optimizer: shown.Optimizer,
		Precision: cmp.Or(r.precisions[r.arm.Spec().String()].Name, r.arm.Precision), Seed: r.seed,
	}
	r.Observe.tell(RunStarted{r.name})
	_, err = train.Run(ctx, job)
	r.Observe.tell(RunEnded{r.name})
	if err := errors.Join(err, plugins.Close()); err != nil {
		return nil, err
	}
	return results.Open(dir)
}

// reckon fills in what a whole run takes, from a short one.
func (a *RehearsedArm) reckon(run *results.Run, shares []float64) error {
	seconds := map[string][]float64{}
	lines := 0
	for s, err := range run.Steps() {
		if err != nil {
			return err
		}
		lines++
		seconds[s.Phase] = append(seconds[s.Phase], s.MeasuredSeconds[results.TotalSeconds])
	}
	steps := 0
	for i := range a.Phases {
		p, tried := &a.Phases[i], run.Result.Phases[i]
		steps += p.Steps
		list := seconds[p.Phase]
		if len(list) > 1 {
			list = list[1:] // the first one allocates
		}
		p.StepSeconds = statistics.Median(list)
		p.EvaluationSeconds = tried.MeasuredSeconds["evaluation"] / shares[i]
		a.Seconds += float64(p.Steps)*p.StepSeconds + float64(p.Evaluations)*p.EvaluationSeconds + tried.MeasuredSeconds["setup"] +
			tried.MeasuredSeconds["checkpoint"]
		a.PeakMemoryBytes = tried.PeakMemoryBytes
	}
	var err error
	a.DiskBytes, err = diskOf(run.Dir, float64(steps)/float64(max(1, lines)))
	return err
}

// diskOf is what a folder takes when its list of steps is so many times as long.
func diskOf(dir string, times float64) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		n := info.Size()
		if e.Name() == "steps.jsonl" {
			n = int64(float64(n) * times)
		}
		sum += n
		return nil
	})
	return sum, err
}
