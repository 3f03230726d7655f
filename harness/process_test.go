package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/checkpoint"
	"harness.invalid/results"
)

// hostProcess is a process of the program, in a folder of its own.
type hostProcess struct {
	t      *testing.T
	dir    string
	temp   string // folder for temporary files; a short name, as it will hold sockets
	marker string // in the environment of the host and of all plugins that it starts
}

func newHost(t *testing.T) *hostProcess {
	t.Helper()
	temp, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	return &hostProcess{t, t.TempDir(), temp, fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())}
}

// command is the program with the small recipe. Values of env go before these and the environment's.
func (h *hostProcess) command(env []string, args ...string) *exec.Cmd {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	mini, err := filepath.Abs("testdata/mini.yaml")
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(self, append(args, "--recipe", mini)...)
	cmd.Dir = h.dir
	cmd.Env = append(append(append(os.Environ(), quickly()...), programVariable+"="+h.marker, "TMPDIR="+h.temp), env...)
	return cmd
}

// run runs the program to its end and returns what it printed on standard output.
func (h *hostProcess) run(env []string, args ...string) []byte {
	h.t.Helper()
	cmd := h.command(env, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("harness %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// outcome is all of a run that does not depend on the time it took.
type outcome struct {
	Identity    results.Identity
	Steps       []results.Step
	Evaluations []results.Evaluation
	Result      results.Result
	Files       map[string]string // contents
}

// read reads a run without its times.
func (h *hostProcess) read(run string) outcome {
	h.t.Helper()
	r, err := results.Open(filepath.Join(h.dir, run))
	if err != nil {
		h.t.Fatal(err)
	}
	if r.Result == nil {
		h.t.Fatalf("%s has no result", run)
	}
	o := outcome{Identity: r.Identity, Result: *r.Result, Files: map[string]string{}}
	for s, err := range r.Steps() {
		if err != nil {
			h.t.Fatal(err)
		}
		s.MeasuredSeconds = nil
		o.Steps = append(o.Steps, s)
	}
	for e, err := range r.Evaluations() {
		if err != nil {
			h.t.Fatal(err)
		}
		e.MeasuredSeconds, e.TrainingSeconds = 0, 0
		o.Evaluations = append(o.Evaluations, e)
	}
	o.Result.Record = nil // its lines have measured times
	o.Result.MeasuredSeconds, o.Result.LoadAverage = nil, nil
	o.Result.Started, o.Result.Finished = time.Time{}, time.Time{}
	for i := range o.Result.Phases {
		p := &o.Result.Phases[i]
		p.MeasuredSeconds, p.PeakMemoryBytes = nil, nil
		if p.Target != nil {
			p.Target.MeasuredSeconds = 0
		}
	}
	last, damaged, err := checkpoint.Latest(r.Checkpoints())
	if err != nil || len(damaged) > 0 {
		h.t.Fatal(err, damaged)
	}
	defer last.Close()
	names := []string{"squad.predictions.json", "squad.nbest_predictions.json"}
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		relative, err := filepath.Rel(r.Dir, filepath.Join(last.Path, name))
		if err != nil {
			h.t.Fatal(err)
		}
		names = append(names, relative)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.Dir, name))
		if err != nil {
			h.t.Fatal(err)
		}
		o.Files[name] = string(text)
	}
	return o
}

// same compares two runs bit by bit.
func same(t *testing.T, what string, want, got outcome) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want.Files)) {
		if want.Files[name] != got.Files[name] {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	want.Files, got.Files = nil, nil
	// Numbers were written so that they read back equal: equal text is equal bits, and NaN is equal to itself.
	if d := cmp.Diff(lines(t, want), lines(t, got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func lines(t *testing.T, o outcome) []string {
	t.Helper()
	var out []string
	add := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	add(o.Identity)
	for _, s := range o.Steps {
		add(s)
	}
	for _, e := range o.Evaluations {
		add(e)
	}
	add(o.Result)
	return out
}

// TestBits: neither the transport nor the number of threads changes a bit of what a run leaves.
func TestBits(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	arms := []string{"ipu-adamw-seed1", "gpu-ref-fp16-adamw-seed1"}
	train := func(out string, env []string, args ...string) []outcome {
		h.run(env, append([]string{"compare", "--backends", "ipu,gpu-ref:fp16", "--quiet", "--out", out}, args...)...)
		var all []outcome
		for _, arm := range arms {
			all = append(all, h.read(filepath.Join(out, arm)))
		}
		return all
	}
	want := train("one", []string{"GOMAXPROCS=1"}, "--transport", "memory")
	got := train("five", []string{"GOMAXPROCS=5"}, "--transport", "stream")
	for i, arm := range arms {
		same(t, arm+" with 5 threads over the stream", want[i], got[i])
	}
	if want[0].Result.BatchDigest != want[1].Result.BatchDigest {
		t.Error("the two backends have seen different batches")
	}
}
