package host_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/tensor"
)

// updates opens an optimizer's session over a vector of 16 elements.
func updates(t *testing.T, p *host.Process) (optimizer.Session, optimizer.Memory) {
	t.Helper()
	l, err := tensor.NewLayout(tensor.Tensor{Name: "bert.pooler.dense.bias", Shape: tensor.Shape{16}})
	if err != nil {
		t.Fatal(err)
	}
	m := optimizer.Memory{Layout: l, Params: make([]float32, 16), Grads: make([]float32, 16)}
	s, err := p.Optimizer().Open(t.Context(), nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// TestBadSteps expects one clear error for every way in which an update can fail, which names the plugin, the call
// and the step.
func TestBadSteps(t *testing.T) {
	for role, test := range map[string]struct {
		texts []string
		is    error
		lives bool
	}{
		"crash":           {[]string{"the plugin died (exit status 3)", "tile 311 is on fire"}, host.ErrDied, false},
		"crash-elsewhere": {[]string{"the plugin died (exit status 2)", "panic: a goroutine of the plugin"}, host.ErrDied, false},
		"panic":           {[]string{"panic: slots: 0", "faults_test.go", "printed to standard output"}, nil, true},
		"hang":            {[]string{"no answer within 1s", "was killed", "waiting for the device"}, host.ErrDied, false},
		"out-of-memory":   {[]string{"tile 311 needs 702 KiB, has 624 KiB: out of memory"}, backend.ErrOutOfMemory, true},
		"unsupported":     {[]string{"sparse gradients: unsupported"}, backend.ErrUnsupported, true},
	} {
		for _, transport := range transports {
			t.Run(role+"/"+string(transport), func(t *testing.T) {
				t.Parallel()
				s := spec(t, plugin.Optimizer, role, transport)
				if role == "hang" {
					s.Timeouts.Step = time.Second
				}
				p := start(t, s)
				u, _ := updates(t, p)
				_, err := u.Step(t.Context(), optimizer.Step{Step: 12, LR: 0.1})
				wants(t, err, append(test.texts, "optimizer "+role+": step 12: ")...)
				if test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("error is not %q: %v", test.is, err)
				}
				if !test.lives && errors.Is(err, backend.ErrOutOfMemory) {
					t.Errorf("error has a meaning that nobody gave it: %v", err)
				}
				_, err = p.Optimizer().Describe(t.Context())
				if test.lives && err != nil {
					t.Errorf("after the error the plugin is gone: %v", err)
				}
				if !test.lives && !errors.Is(err, host.ErrDied) {
					t.Errorf("after the plugin died: error %v, want ErrDied", err)
				}
				if err := u.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
	}
}

// TestCancelled: a cancelled call returns only once the plugin no longer touches memory.
func TestCancelled(t *testing.T) {
	p := start(t, spec(t, plugin.Optimizer, "patient", host.Memory))
	u, _ := updates(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	if _, err := u.Step(ctx, optimizer.Step{Step: 1, LR: 0.1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if d := time.Since(began); d < 350*time.Millisecond {
		t.Errorf("the call came back after %v, while the plugin was still writing", d)
	}
	if _, err := p.Optimizer().Describe(t.Context()); err != nil {
		t.Errorf("after a cancelled call: %v", err)
	}
}

func TestBadBackends(t *testing.T) {
	p := program()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	for role, texts := range map[string][]string{
		"nan-gradient":   {"step 1: it left +Inf in the gradients of bert.embeddings.word_embeddings.weight, element 1"},
		"nan-loss":       {"step 1: it reports a loss of NaN"},
		"negative-count": {"step 1: it reports -1 overflows"},
		"nan-seconds":    {"step 1: it reports NaN seconds for forward"},
		"wrong-shape":    {"evaluate: it sent pooler_output with shape [2 3], want [2 32]"},
		"missing-output": {"evaluate: it did not send output pooler_output"},
	} {
		for _, transport := range transports {
			t.Run(role+"/"+string(transport), func(t *testing.T) {
				t.Parallel()
				m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
				bert.Initialize(p.Model, l, m.Params, 1)
				s, err := start(t, spec(t, plugin.Backend, role, transport)).Backend().Open(t.Context(), p, m)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if err := s.Commit(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				_, err = s.Step(t.Context(), stepOf(p, 1), batches(p, 1))
				if err == nil {
					ask := backend.Evaluation{Outputs: []string{"pooler_output"}}
					_, err = s.Evaluate(t.Context(), ask, batches(p, 1), func(backend.Outputs) error { return nil })
				}
				wants(t, err, append(texts, "backend "+role)...)
			})
		}
	}
}

// TestNotFinite: committing parameters that are not finite is an error, whoever made them so.
func TestNotFinite(t *testing.T) {
	p := program()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range transports {
		m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
		bert.Initialize(p.Model, l, m.Params, 1)
		s, err := start(t, spec(t, plugin.Backend, "gpu-ref", transport)).Backend().Open(t.Context(), p, m)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		bias, _ := l.Lookup("bert.pooler.dense.bias")
		before := bias.Of(m.Params)[1]
		bias.Of(m.Params)[1] = float32(math.NaN())
		wants(t, s.Commit(t.Context(), 7), "backend gpu-ref: commit of step 7: NaN in the parameters of bert.pooler.dense.bias, "+
			"element 1: the optimizer left it there, or this commit did")
		bias.Of(m.Params)[1] = before
		if err := s.Commit(t.Context(), 7); err != nil {
			t.Error(err)
		}
	}
}

// TestNoModel: a backend without a model of its machine says so with an error that callers recognize.
func TestNoModel(t *testing.T) {
	e, ok := start(t, spec(t, plugin.Backend, "idle", host.Stream)).Backend().(backend.Estimator)
	if !ok {
		t.Fatal("the client is no Estimator")
	}
	_, err := e.Estimate(t.Context(), program(), backend.Machine{})
	wants(t, err, "backend idle: estimate", "no model of its machine")
	if !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
}

func TestBadStarts(t *testing.T) {
	for role, test := range map[string]struct {
		kind  plugin.Kind
		texts []string
		died  bool
	}{
		"version-7": {plugin.Optimizer, []string{"it speaks protocol version 7, this harness speaks version 1"}, false},
		"early":     {plugin.Optimizer, []string{"it ended before it said hello (exit status 4)", "libipu.so: cannot open"}, true},
		"chatty":    {plugin.Optimizer, []string{`it printed "Hello, world!" instead of the handshake`}, true},
		"mute":      {plugin.Optimizer, []string{"no answer within 1s", "looking for devices"}, true},
		"sgd":       {plugin.Backend, []string{"it is a plugin, but no backend"}, false},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			s := spec(t, test.kind, role, host.Memory)
			if role == "mute" {
				s.Timeouts.Start = time.Second
			}
			p, err := host.Launch(t.Context(), s)
			if err == nil {
				t.Fatal(errors.Join(errors.New("it started"), p.Close()))
			}
			wants(t, err, append(test.texts, string(test.kind)+" "+role+": start: ")...)
			if errors.Is(err, host.ErrDied) != test.died {
				t.Errorf("error is ErrDied: %v, want %v", !test.died, test.died)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	good := spec(t, plugin.Optimizer, "sgd", host.Memory)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		change func(*host.Spec)
		texts  []string
	}{
		"no such file":   {t.Context(), func(s *host.Spec) { s.Path = plain + "er" }, []string{"no such file"}},
		"not executable": {t.Context(), func(s *host.Spec) { s.Path = plain }, []string{"permission denied"}},
		"no kind":        {t.Context(), func(s *host.Spec) { s.Kind = "model" }, []string{`kind is "model"`}},
		"no transport":   {t.Context(), func(s *host.Spec) { s.Transport = "pigeon" }, []string{`transport is "pigeon"`}},
		"cancelled":      {cancelled, func(*host.Spec) {}, []string{"context canceled"}},
	} {
		s := good
		test.change(&s)
		p, err := host.Launch(test.ctx, s)
		if err == nil {
			t.Errorf("%s: it started", name)
			_ = p.Close()
			continue
		}
		wants(t, err, test.texts...)
	}
	start(t, good)
}

// TestStderr: what a plugin prints reaches the host, on both streams.
func TestStderr(t *testing.T) {
	var printed buffer
	s := spec(t, plugin.Optimizer, "panic", host.Memory)
	s.Stderr = &printed
	u, _ := updates(t, start(t, s))
	_, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0.1})
	wants(t, err, "panic: slots: 0")
	wants(t, errors.New(printed.String()), "panic: slots: 0", "faults_test.go:", "printed to standard output\n")
}
