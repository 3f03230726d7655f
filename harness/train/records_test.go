package train_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/checkpoint"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// stopped is a job that was stopped after the eighth step of phase1, with checkpoints of steps 6 and 8.
func (e *experiment) stopped(edit func(*train.Job)) train.Job {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	j := e.job("gpu-ref", e.t.TempDir())
	if edit != nil {
		edit(&j)
	}
	j.Observe = func(ev train.Event) {
		if ev.Step == 8 {
			cancel()
		}
	}
	if _, err := train.Run(ctx, j); !errors.Is(err, context.Canceled) {
		e.t.Fatal(err)
	}
	j.Resume, j.Observe = true, nil
	return j
}

// files are the contents of a run's record and checkpoints.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// refused resumes a run that cannot go on, and checks that the refusal says what to do and that nothing was changed.
func (e *experiment) refused(j train.Job, want, advice string) {
	e.t.Helper()
	before := files(e.t, j.Dir)
	_, err := train.Run(e.t.Context(), j)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(hint.Of(err), advice) {
		e.t.Errorf("resumed with error %v, hint %q, want %q and %q", err, hint.Of(err), want, advice)
	}
	after := files(e.t, j.Dir)
	for path, text := range before {
		if after[path] != text {
			e.t.Errorf("%s was changed by a run that was refused", path)
		}
	}
	if len(after) != len(before) {
		e.t.Errorf("%d files after a run that was refused, %d before", len(after), len(before))
	}
}

// TestAllCheckpointsDamaged: a run whose checkpoints are all damaged is refused, and its record stays as it is.
func TestAllCheckpointsDamaged(t *testing.T) {
	e := load(t, "phases.phase1.checkpoint_every=3")
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	j := e.stopped(nil)
	models, err := filepath.Glob(filepath.Join(j.Dir, "checkpoints", "*", "model.safetensors"))
	if err != nil || len(models) != 2 {
		t.Fatalf("checkpoints %v, %v, want two", models, err)
	}
	for _, path := range models {
		damage(t, path)
	}
	e.refused(j, "no checkpoint is intact", "put back a copy")
	for _, path := range models {
		damage(t, path) // the same bit
	}
	if d := whole.differs(e.run(j)); d != "" {
		t.Errorf("with its checkpoints put back it differs in %s", d)
	}
}

// TestDamagedRecord: a line that changed before the checkpoint is found when the run is resumed, not at its end.
func TestDamagedRecord(t *testing.T) {
	e := load(t, "phases.phase1.checkpoint_every=3", "phases.phase1.evaluation.every=4")
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	j := e.stopped(nil)
	for _, name := range []string{"steps.jsonl", "evaluations.jsonl"} {
		path := filepath.Join(j.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damage(t, path)
		line := 1 + strings.Count(string(text[:len(text)/2]), "\n")
		e.refused(j, fmt.Sprintf("%s:%d:", name, line), "put back a copy of that file")
		damage(t, path)
	}
	if d := whole.differs(e.run(j)); d != "" {
		t.Errorf("with its record put back it differs in %s", d)
	}
}

// TestForeignCheckpoints: folders that the user put among the checkpoints change nothing.
func TestForeignCheckpoints(t *testing.T) {
	e := load(t, "phases.phase1.checkpoint_every=3")
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	dir := t.TempDir()
	for _, name := range []string{"best-so-far", "keep", "zz"} {
		if err := os.MkdirAll(filepath.Join(dir, "checkpoints", name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	j := e.stopped(func(j *train.Job) { j.Dir = dir })
	if d := whole.differs(e.run(j)); d != "" {
		t.Errorf("differs in %s", d)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*")); err != nil || len(left) != 5 {
		t.Errorf("%v are left, %v, want the user's three and two checkpoints", left, err)
	}
}

// TestChanges: a run goes on with other kernels, another program or another plugin only if that is allowed. Its record
// then says so, and has the environment of each segment.
func TestChanges(t *testing.T) {
	e := load(t, "phases.phase1.steps=9", "phases.phase2.steps=1", "phases.squad.steps=1")
	began := results.Environment{Kernels: "amd64/avx512", ProgramSHA256: "p1", Plugins: []results.Plugin{
		{Kind: "backend", Name: "gpu-ref", Version: "1", SHA256: "p1"}, {Kind: "optimizer", Name: "adamw", Version: "1", SHA256: "a1"},
		{Kind: "backend", Name: "ipu", Version: "1", SHA256: "i1"},
	}}
	plugins := func(edit func(p []results.Plugin)) []results.Plugin {
		p := append([]results.Plugin(nil), began.Plugins...)
		edit(p)
		return p
	}
	j := e.stopped(func(j *train.Job) { j.Environment = began })
	for want, env := range map[string]results.Environment{
		"kernels amd64/avx512, now amd64/avx2":          {Kernels: "amd64/avx2", ProgramSHA256: "p1"},
		"program p1, now p2":                            {ProgramSHA256: "p2", Plugins: plugins(func(p []results.Plugin) { p[0].SHA256 = "p2" })},
		"optimizer adamw a1, now a2":                    {Plugins: plugins(func(p []results.Plugin) { p[1].SHA256 = "a2" })},
		"optimizer adamw version 1, now version 2":      {Plugins: plugins(func(p []results.Plugin) { p[1].Version = "2" })},
		"(backend gpu-ref p1, now q1): finish it where": {ProgramSHA256: "p1", Plugins: plugins(func(p []results.Plugin) { p[0].SHA256 = "q1" })},
	} {
		j.Environment = env
		e.refused(j, want, "--allow-change")
	}
	// A plugin of another arm is none of this run's business.
	j.Environment = results.Environment{Kernels: began.Kernels, Plugins: plugins(func(p []results.Plugin) { p[2].SHA256 = "i2" })}
	before, err := results.Open(j.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := j.Changes(before); err != nil || len(changes) > 0 {
		t.Errorf("changes %q, %v, want none", changes, err)
	}
	j.Environment.Kernels, j.AllowChange = "amd64/avx2", true
	o := e.run(j)
	want := "after step 8 the run went on with other bits: kernels amd64/avx512, now amd64/avx2"
	if len(o.result.Notes) != 1 || o.result.Notes[0] != want {
		t.Errorf("notes %q, want %q", o.result.Notes, want)
	}
	run, err := results.Open(j.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := run.Segments()
	if err != nil || len(s) != 2 || s[0].Environment.Kernels != "amd64/avx512" || s[1].After != 8 || s[1].Environment.Kernels != "amd64/avx2" {
		t.Errorf("segments %+v, %v, want two with their kernels", s, err)
	}
}

// TestNoCheckpointYet: a run that broke off before its first checkpoint begins again.
func TestNoCheckpointYet(t *testing.T) {
	e := load(t)
	whole := e.run(e.job("gpu-ref", t.TempDir()))
	j := e.stopped(nil)
	if err := os.RemoveAll(filepath.Join(j.Dir, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	if d := whole.differs(e.run(j)); d != "" {
		t.Errorf("begun again it differs in %s", d)
	}
	if _, _, err := checkpoint.Latest(filepath.Join(j.Dir, "checkpoints")); err != nil {
		t.Error(err)
	}
}
