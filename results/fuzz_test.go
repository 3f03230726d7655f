package results

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"harness.invalid/core/filename"
)

// FuzzStep: the fast decoder of lines of steps reads what encoding/json reads, and nothing else.
func FuzzStep(f *testing.F) {
	for _, s := range []Step{{}, step(1, 2.5), step(2, math.NaN())} {
		line, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(line))
	}
	f.Add(`{"phase":"a","metrics":{"loss":"Infinity"},"finite":true}`)
	f.Add(`{"step":01}`)
	var d stepDecoder
	f.Fuzz(func(t *testing.T, line string) {
		got, err := d.decode([]byte(line))
		var want Step
		slow := json.Unmarshal([]byte(line), &want)
		if (err == nil) != (slow == nil) {
			t.Fatalf("%q: %v, and encoding/json says %v", line, err, slow)
		}
		if err == nil && !cmp.Equal(*got, want, cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), numbers) {
			t.Errorf("%q: %v, and encoding/json reads %v", line, *got, want)
		}
	})
}

// FuzzRun: whatever one file of a run holds, the run is read or refused, and its names stay in its folder.
func FuzzRun(f *testing.F) {
	r := quick(f)
	files := []string{runFile, environmentFile, resultFile, stepsFile, evaluationsFile, tagsFile, ScoresFile("squad"),
		PredictionsFile("squad"), recipeFile}
	good := f.TempDir()
	w, err := Create(good, identity(r), r, CaptureEnvironment())
	if err != nil {
		f.Fatal(err)
	}
	for n := range 3 {
		if err := w.Step(step(n+1, float64(n))); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Evaluation(Evaluation{Phase: "phase1", Step: 3, TotalStep: 3, Metrics: Metrics{"loss": 1}}); err != nil {
		f.Fatal(err)
	}
	if err := w.Finish(Result{Status: Complete, Metrics: Metrics{"f1": 1}}); err != nil {
		f.Fatal(err)
	}
	before := make([][]byte, len(files))
	for i, name := range files {
		if before[i], err = os.ReadFile(filepath.Join(good, name)); err == nil {
			f.Add(uint8(i), string(before[i]))
		}
	}
	f.Add(uint8(5), `["a"]`)
	f.Add(uint8(6), `{"f1":{"q":1}}`)
	f.Add(uint8(7), `{"q":"a"}`)
	f.Add(uint8(0), `{"recipe":"../x","backend":"../../x","optimizer":"a"}`)
	var o opener // parses the recipe once
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		i := int(which) % len(files)
		path := filepath.Join(good, files[i])
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.WriteFile(path, before[i], 0o666); before[i] == nil && err == nil {
				_ = os.Remove(path)
			}
		}()
		run, err := o.open(good)
		if err != nil {
			return
		}
		if err := filename.Check(run.Arm().FileName()); err != nil {
			t.Error(err)
		}
		_, _ = run.Curves()
		_, _ = run.CountSteps()
		_, _ = run.Tags()
		_, _ = run.Scores("squad", nil)
		_, _ = run.Answers("squad", Examples[string]{})
	})
}
