//go:build unix

package torture

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"harness.invalid/core/checkpoint"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// tiny is a recipe whose runs take milliseconds and meet every kind of operation: several phases, a checkpoint after every
// step or two, evaluations within phases, predictions and steps that a loss scale skips.
var tiny = []string{
	"model.num_hidden_layers=1", "model.hidden_size=8", "model.intermediate_size=16", "vocab.size=120",
	"data.generated={seed: 1, people: 50, questions: 50, dev_questions: 6}",
	"defaults.global_batch=2", "defaults.micro_batch=1", "defaults.evaluation={batch: 3, sequences: 3}",
	"phases.phase1.length=24", "phases.phase1.max_predictions=4", "phases.phase1.steps=3", "phases.phase1.checkpoint_every=1",
	"phases.phase1.evaluation.every=2", "phases.phase2.steps=2", "phases.phase2.length=24", "phases.phase2.max_predictions=4",
	"phases.phase2.checkpoint_every=2", "phases.squad.steps=2", "phases.squad.evaluation.every=1", "phases.squad.target.value=0",
	"backends.gpu-ref.options.init_scale=65536", "backends.gpu-ref.options.growth_interval=2",
}

// trained is the tiny recipe with its data, and what a run that nobody disturbed leaves.
type trained struct {
	recipe *recipe.Recipe
	data   *train.Data
	whole  outcome
	dir    string // of that run
}

// made says that undisturbed was called.
var made bool

// undisturbed is made once for all tests. Its folder is removed by TestMain.
var undisturbed = sync.OnceValues(func() (*trained, error) {
	made = true
	r, err := recipe.Load("../testdata/mini.yaml", tiny...)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(scratch, "undisturbed")
	d, err := train.OpenData(r, filepath.Join(dir, "data"), func(string) {})
	if err != nil {
		return nil, err
	}
	e := &trained{recipe: r, data: d, dir: filepath.Join(dir, "run")}
	if e.whole, err = e.disturbed(e.dir, newDevices(), 0, new(saboteur)); err != nil {
		return nil, err
	}
	return e, nil
})

func whole(t testing.TB) *trained {
	t.Helper()
	e, err := undisturbed()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// job is a run of the recipe, which goes on from what lies in its folder.
func (e *trained) job(dir string, p train.Plugins) train.Job {
	return train.Job{
		Recipe: e.recipe, Data: e.data, Backend: "gpu-ref", Precision: "fp16", Seed: 1, Plugins: p, Dir: dir, Resume: true,
		Identity: results.Identity{
			Recipe: e.recipe.Name, Fingerprint: e.recipe.Fingerprint(), DataDigest: e.data.Digest,
			Backend: "gpu-ref", Precision: "fp16", Optimizer: "adamw", Seed: 1,
		},
	}
}

// run trains, unless the folder has a run that is over, and reads what it left.
func (e *trained) run(j train.Job) (outcome, error) {
	r, err := results.Open(j.Dir)
	if err != nil || r.Result == nil {
		if _, err := train.Run(background, j); err != nil {
			return outcome{}, err
		}
	}
	return read(j.Dir)
}

// outcome is all of a run that does not depend on the time it took: lines of JSON, which prints numbers so that they read
// back exactly, and digests of files.
type outcome map[string]string

func read(dir string) (outcome, error) {
	r, err := results.Open(dir)
	if err != nil {
		return nil, err
	}
	if r.Result == nil || r.Result.Status != results.Complete {
		return nil, fmt.Errorf("%s: the run is not complete", dir)
	}
	o := outcome{}
	put := func(name string, v any) {
		text, e := json.Marshal(v)
		err = errors.Join(err, e)
		o[name] = string(text)
	}
	n := 0
	for s, e := range r.Steps() {
		s.MeasuredSeconds = nil
		n++
		put(fmt.Sprint("step ", n), s)
		err = errors.Join(err, e)
	}
	n = 0
	for v, e := range r.Evaluations() {
		v.MeasuredSeconds, v.TrainingSeconds = 0, 0
		n++
		put(fmt.Sprint("evaluation ", n), v)
		err = errors.Join(err, e)
	}
	result := *r.Result
	result.Record, result.MeasuredSeconds, result.LoadAverage = nil, nil, nil
	result.Started, result.Finished = time.Time{}, time.Time{}
	result.Notes = nil // of restarts and damaged checkpoints, as they happened
	for i := range result.Phases {
		p := &result.Phases[i]
		p.MeasuredSeconds, p.PeakMemoryBytes = nil, nil
		if p.Target != nil {
			p.Target.MeasuredSeconds = 0
		}
	}
	put("result", result)
	if err != nil {
		return nil, err
	}
	return o, o.files(r)
}

// files adds the newest checkpoint and the predictions. Two checkpoints are there, whole. What begins with a dot is a
// folder on its way out, which the power cut at the end of a run may have brought back.
func (o outcome) files(r *results.Run) error {
	list, err := filepath.Glob(filepath.Join(r.Checkpoints(), "[^.]*"))
	if err == nil && len(list) != 2 {
		err = fmt.Errorf("there are %d checkpoints, want 2: %q", len(list), list)
	}
	if err != nil {
		return err
	}
	c, damaged, err := checkpoint.Latest(r.Checkpoints())
	if err != nil || len(damaged) > 0 {
		return errors.Join(append(damaged, err)...)
	}
	defer c.Close()
	for _, path := range []string{
		filepath.Join(c.Path, "model.safetensors"), filepath.Join(c.Path, "optimizer.safetensors"),
		filepath.Join(r.Dir, "squad.predictions.json"),
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		o[filepath.Base(path)] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return nil
}

// differs says where two outcomes differ; empty: in no bit.
func (o outcome) differs(other outcome) string {
	for _, pair := range [][2]outcome{{o, other}, {other, o}} {
		for name, text := range pair[0] {
			if pair[1][name] != text {
				return fmt.Sprintf("%s:\n%s\n%s", name, o[name], other[name])
			}
		}
	}
	return ""
}
