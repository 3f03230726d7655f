package estimate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
)

// machine is a backend whose step takes a second for each micro-batch in sequence. A device takes 8 sequences; small2
// has 2 replicas, small16 16.
type machine struct{ backend.Backend }

func (machine) Describe(context.Context) (backend.Info, error) {
	return backend.Info{Name: "ipu", Options: []option.Option{{Name: "pipeline"}, {Name: "system", Default: "small2"}}}, nil
}

func (machine) Estimate(_ context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	m := backend.Estimate{System: on.System, GlobalBatch: p.GlobalBatch(), StepSeconds: float64(p.Accumulation)}
	if m.System == "" {
		m.System = "small2"
	}
	most := map[string]int{"small2": 2, "small16": 16}
	if m.System == "small2" && p.Replicas > 2 && on.Grow {
		m.System = "small16"
	}
	if p.Replicas > most[m.System] {
		return m, errors.New("too few devices")
	}
	m.SequencesPerSecond = float64(m.GlobalBatch) / m.StepSeconds
	weights := backend.MemoryPart{Name: "Weights", Bytes: int64(p.MicroBatch)}
	m.Memory = []backend.DeviceMemory{{Device: "device 0", Bytes: 8, Parts: []backend.MemoryPart{weights}}}
	if !m.Fits() {
		m.Advice = "less"
		m.Remedy = &backend.Remedy{MicroBatch: 8, Accumulation: p.Accumulation * p.MicroBatch / 8, Replicas: p.Replicas}
	}
	return m, nil
}

func (machine) Systems(context.Context) ([]backend.System, error) {
	return []backend.System{{Name: "small2"}, {Name: "small16"}}, nil
}

func (machine) Variations(_ context.Context, p backend.Program, _ backend.Machine) ([]backend.Variation, error) {
	return []backend.Variation{{Varied: "layers per device", Value: "6,6", Options: map[string]string{"pipeline": "6,6"}}}, nil
}

func start(t *testing.T, q Request) *Session {
	t.Helper()
	e, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.with("ipu", machine{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNew: a request without a recipe is one phase with published settings. With a recipe, the fields of the request
// take precedence in every phase.
func TestNew(t *testing.T) {
	e, err := New(Request{Backend: "ipu", Task: "squad"})
	if err != nil {
		t.Fatal(err)
	}
	p := e.Jobs[0].Program
	if len(e.Jobs) != 1 || p.Length != 384 || p.GlobalBatch() != 16 || p.Model.NumHiddenLayers != 12 || e.Jobs[0].Optimizer.Name != "adamw" {
		t.Errorf("squad without a recipe is %+v", e.Jobs)
	}
	e, err = New(Request{Backend: "ipu", Recipe: "scratch", MicroBatch: 4, Accumulation: 2, Replicas: 2, Optimizer: "sgd", Samples: 64})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range e.Jobs {
		if j.Program.GlobalBatch() != 16 || j.Optimizer.Name != "sgd" || j.Steps == 0 {
			t.Errorf("phase %s of scratch: %+v", j.Phase, j)
		}
	}
	if _, err := e.Job("phase9"); err == nil || !strings.Contains(err.Error(), "want phase1, phase2") {
		t.Errorf("a phase that is not there: %v", err)
	}
	if _, err := New(Request{Backend: "ipu", System: "./none.yaml"}); err == nil || !strings.Contains(err.Error(), "--system") {
		t.Errorf("a description that is not there: %v", err)
	}
}

// TestFlags: an estimate that does not fit names flags that make it fit, and they do.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		q    Request
		want string
	}{
		{Request{Backend: "ipu", MicroBatch: 16, Accumulation: 2}, "--micro-batch 8 --accumulation 4"},
		{Request{Backend: "ipu", Set: []string{"phases.pretraining.micro_batch=16"}}, "--micro-batch 8 --accumulation 32"},
		{Request{Backend: "ipu", Recipe: "scratch", MicroBatch: 16}, "--micro-batch 8 --accumulation 2"},
	} {
		s := start(t, c.q)
		m, err := s.Model(t.Context(), &s.Jobs[0])
		if err != nil || m.Flags != c.want || !errors.Is(m.Err(), backend.ErrOutOfMemory) {
			t.Errorf("%+v: flags are %q, want %q; %v, %v", c.q, m.Flags, c.want, m.Err(), err)
		}
	}
	for backend, want := range map[string]string{
		"ipu": "--set backends.ipu.phases.phase1.micro_batch=8 --set backends.ipu.phases.phase1.accumulation=2",
		"ipu:fp16.16": `--set 'backends={"ipu:fp16.16": {"phases": {"phase1": {"micro_batch": 8}}}}' ` +
			`--set 'backends={"ipu:fp16.16": {"phases": {"phase1": {"accumulation": 2}}}}'`,
	} {
		q := Request{Backend: backend, Recipe: "scratch", Set: []string{"backends.ipu.micro_batch=16", "backends.ipu.accumulation=1"}}
		s := start(t, q)
		m, err := s.Model(t.Context(), &s.Jobs[0])
		if err != nil || !strings.HasPrefix(m.Flags, want) {
			t.Fatalf("%s: flags of a recipe are\n%s, want\n%s; %v", backend, m.Flags, want, err)
		}
		for f := range strings.SplitSeq(strings.TrimPrefix(m.Flags, "--set "), " --set ") {
			q.Set = append(q.Set, strings.Trim(f, "'"))
		}
		s = start(t, q)
		if m, err := s.Model(t.Context(), &s.Jobs[0]); err != nil || m.Err() != nil || m.Hint() != "" {
			t.Errorf("%s: with the flags: %v, %v, hint %q", backend, m.Err(), err, m.Hint())
		}
	}
}

// TestSweep: more replicas go onto the larger system of the family, the best cut stays on the named one.
func TestSweep(t *testing.T) {
	s := start(t, Request{Backend: "ipu", MicroBatch: 2, Accumulation: 16, Options: map[string]string{"pipeline": "6,6"}})
	points, err := s.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fastest := map[string]string{}
	var best []Point
	for _, p := range points {
		if p.Fastest {
			fastest[p.Varied] = p.Value + " on " + p.System
		}
		if p.Best {
			best = append(best, p)
		}
	}
	if fastest[variedReplicas] != "16 on small16" || fastest[variedMicroBatch] != "8 on small2" {
		t.Errorf("the fastest are %v", fastest)
	}
	if len(best) != 1 || best[0].Value != "8 x 2 x 2, layers per device 6,6" || best[0].System != "small2" {
		t.Errorf("the best cuts are %+v", best)
	}
	if _, err := start(t, Request{Backend: "ipu", Replicas: 99, System: "other"}).Sweep(t.Context()); err == nil {
		t.Error("a sweep of which nothing runs is no error")
	}
}
