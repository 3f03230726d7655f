package experiment_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/harness/experiment"
	"harness.invalid/results"
)

// warm are changes of mini that make it start from a model: two steps of pre-training and two of question answering.
// Its arms go on with the question answering and then with the pre-training.
var warm = []string{"start={recipe: ../testdata/mini.yaml, seed: 3}", "start.phases.*.steps=2", "start.phases.squad.evaluation.every=0",
	"phases.*.steps=2", "phases.squad.evaluation.every=0"}

// warmed runs warm mini and returns what it noted, and the runs.
func warmed(t *testing.T, e experiment.Experiment, set ...string) (notes []string, runs []*results.Run, err error) {
	t.Helper()
	e.Recipe, e.FirstSeed = mini(t, slices.Concat(warm, set)...), 1
	if e.Arms == nil {
		e.Arms = arms(t, []string{"gpu-ref"}, nil)
	}
	var mu sync.Mutex
	e.Observe = func(ev experiment.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch ev := ev.(type) {
		case experiment.Note:
			notes = append(notes, ev.Text)
		case experiment.RunStarted:
			notes = append(notes, "started "+ev.Run)
		}
	}
	o, err := experiment.Run(t.Context(), e)
	if err != nil {
		return notes, nil, err
	}
	return notes, o.Runs, nil
}

func said(notes []string, what string) bool {
	return slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, what) })
}

// startFile is the one start model in a folder.
func startFile(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s has the start models %v, %v", dir, paths, err)
	}
	return paths[0]
}

func flip(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestStartModel: it is trained once, has all heads, and is in every run's record. A second experiment takes it from
// the cache; one that is damaged is made again, with the same bits. An experiment that is resumed keeps its own, and
// refuses to go on from another one.
func TestStartModel(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(experiment.StartCacheVariable, cache)
	first := experiment.Experiment{Dir: t.TempDir(), Arms: arms(t, []string{"gpu-ref", "ipu"}, nil)}
	notes, runs, err := warmed(t, first)
	if err != nil {
		t.Fatal(err)
	}
	digest := runs[0].Start
	if len(digest) != 64 || runs[1].Start != digest || !said(notes, "started start model") || !said(notes, digest[:12]+", trained in ") {
		t.Errorf("runs start from %q and %q; %q", digest, runs[1].Start, notes)
	}
	f, err := safetensors.Open(startFile(t, cache))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cls.predictions.bias", "cls.seq_relationship.weight", "qa_outputs.weight", "bert.pooler.dense.weight"} {
		if !slices.Contains(f.Names(), name) {
			t.Errorf("the start model lacks %s: %v", name, f.Names())
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	again := func(why, want string) {
		t.Helper()
		notes, runs, err := warmed(t, experiment.Experiment{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if !said(notes, want) || said(notes, "started start model") != (want != "cached") || runs[0].Start != digest {
			t.Errorf("%s: start from %s, %q, want %q", why, runs[0].Start, notes, want)
		}
	}
	again("the second experiment", "cached")
	flip(t, startFile(t, cache))
	again("a damaged model", "is damaged: it is made again")

	if notes, _, err = warmed(t, experiment.Experiment{Dir: first.Dir, Resume: true, Seeds: 2}); err != nil || said(notes, "cached") {
		t.Errorf("an experiment that goes on: %v, %q", err, notes)
	}
	// Its own model is lost, and the cache has another one under its key, as from a program that rounds otherwise.
	other := filepath.Join(t.TempDir(), "other.safetensors")
	if err := safetensors.Write(other, nil, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(filepath.Base(startFile(t, cache)), "-")
	sum := sha256.Sum256(text)
	if err := errors.Join(os.Remove(startFile(t, cache)),
		os.WriteFile(filepath.Join(cache, key+"-"+hex.EncodeToString(sum[:])+".safetensors"), text, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(startFile(t, first.Dir)); err != nil {
		t.Fatal(err)
	}
	_, _, err = warmed(t, experiment.Experiment{Dir: first.Dir, Resume: true, Seeds: 3})
	if err == nil || !strings.Contains(err.Error(), "start model "+digest[:12]+", now ") {
		t.Errorf("going on from another start model gives %v", err)
	}
}

// TestStartModelAtOnce: experiments that need the same start model at the same time all get it, whole.
func TestStartModelAtOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(experiment.StartCacheVariable, cache)
	var digests [2]string
	var errs [2]error
	var group sync.WaitGroup
	for i := range digests {
		dir := t.TempDir()
		group.Go(func() {
			_, runs, err := warmed(t, experiment.Experiment{Dir: dir}, "phases.*.steps=1")
			if errs[i] = err; err == nil {
				digests[i] = runs[0].Start
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if digests[0] != digests[1] || !strings.Contains(startFile(t, cache), digests[0]) {
		t.Errorf("start models %q", digests)
	}
}

// TestNoStartFolder: where there is no folder to keep start models in, they are trained and not kept.
func TestNoStartFolder(t *testing.T) {
	for _, name := range []string{experiment.StartCacheVariable, "HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	if _, err := os.UserCacheDir(); err == nil {
		t.Skip("this system has a folder for caches whatever the environment says")
	}
	notes, _, err := warmed(t, experiment.Experiment{Dir: t.TempDir()}, "phases.*.steps=1")
	if err != nil || !said(notes, "is not kept for later experiments") {
		t.Errorf("%v, %q", err, notes)
	}
}

// TestStopBeforeStart: an experiment that is stopped while the plugins of its start model start ends in order.
func TestStopBeforeStart(t *testing.T) {
	t.Setenv(experiment.StartCacheVariable, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	e := experiment.Experiment{Recipe: mini(t, warm...), FirstSeed: 1, Arms: arms(t, []string{"gpu-ref"}, nil), Dir: t.TempDir()}
	e.Observe = func(ev experiment.Event) {
		if n, ok := ev.(experiment.Note); ok && strings.HasPrefix(n.Text, "training the model that all runs start from") {
			stop()
		}
	}
	if _, err := experiment.Run(ctx, e); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "start model: ") {
		t.Errorf("error is %v", err)
	}
}
