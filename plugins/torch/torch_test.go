package torch_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/plugin/python"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/torch"
)

// interpreter is one that has PyTorch, looked for once.
var interpreter = sync.OnceValues(func() (string, error) {
	torch := python.Module{Name: "torch", Debian: "python3-torch", PyPI: "torch"}
	return python.Interpreter(context.Background(), append([]python.Module{torch}, python.Modules...))
})

// spec starts PyTorch. The test is skipped where there is none.
func spec(t testing.TB, kind plugin.Kind, transport host.Transport, args ...string) host.Spec {
	t.Helper()
	interpreter, err := interpreter()
	if errors.Is(err, python.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	archive, err := python.Archive(python.SDK(), torch.Program)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path, err := python.Install("harness-torch", archive)
	if err != nil {
		t.Fatal(err)
	}
	limit := 3 * time.Minute // for a busy machine
	return host.Spec{
		Kind: kind, Name: "torch", Path: interpreter, Args: append([]string{path}, args...), Threads: 1, Transport: transport,
		Timeouts: host.Timeouts{Start: limit, Call: limit, Open: limit, Step: limit},
	}
}

func start(t testing.TB, s host.Spec) *host.Process {
	t.Helper()
	p, err := host.Launch(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func TestBackend(t *testing.T) {
	b := start(t, spec(t, plugin.Backend, host.Memory, "backend")).Backend()
	for _, r := range backendtest.Conformance(t.Context(), b) {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	}
	rows, err := backendtest.Oracle(t.Context(), b, "../../core/internal/reference/testdata/golden/bert/question_answering.safetensors")
	if err != nil || len(rows) < 60 {
		t.Errorf("%d quantities were held against float64, error %v", len(rows), err)
	}
	tokens, err := backendtest.Oracle(t.Context(), b, "../../core/backend/backendtest/testdata/token_classification.safetensors")
	if err != nil {
		t.Error(err)
	}
	rows = append(rows, tokens...)
	for _, r := range rows {
		if !r.Pass {
			t.Errorf("%s of %s in %s: relative error %.2g, want at most %g", r.Quantity, r.Case, r.Precision, r.RelError, r.Limit)
		}
	}
	agrees(t, b)
	sameOverStream(t, b)
}

// agrees trains a small model without dropout on PyTorch and on gpu-ref. The two share no line of the model, so
// what they have in common is right. On 100 steps of the recipe scratch the greatest difference was 1.9e-8; a wrong
// constant anywhere is far above the limit.
func agrees(t *testing.T, torchs backend.Backend) {
	const steps, limit = 30, 1e-6
	p := backend.Program{
		Model: model(), Head: bert.Head{Task: bert.Pretraining}, Precision: "fp32", Seed: 3,
		Length: 16, MaxPredictions: 3, MicroBatch: 4, Accumulation: 2, Replicas: 1,
	}
	p.Model.HiddenDropoutProb, p.Model.AttentionProbsDropoutProb = 0, 0
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	train := func(b backend.Backend) (losses []float64) {
		m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
		bert.Initialize(p.Model, l, m.Params, 1)
		s, err := b.Open(t.Context(), p, m)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		slots := [][]float32{make([]float32, l.Len()), make([]float32, l.Len())}
		update, err := adamw.New().Open(t.Context(), nil, optimizer.Memory{Layout: l, Params: m.Params, Grads: m.Grads, Slots: slots})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for step := 1; step <= steps; step++ {
			global := batch(p, step)
			of := backend.Step{Step: step, Sequences: global.Size, MaskedWeight: global.MaskedWeight()}
			r, err := s.Step(t.Context(), of, func(yield func(*bert.Batch, error) bool) {
				_ = yield(global.Slice(0, 4), nil) && yield(global.Slice(4, 8), nil)
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := update.Step(t.Context(), optimizer.Step{Step: step, LR: 2e-3}); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), step); err != nil {
				t.Fatal(err)
			}
			losses = append(losses, r.Losses.Total())
		}
		return losses
	}
	got, want := train(torchs), train(gpuref.New())
	for i, w := range want {
		if e := math.Abs(got[i]-w) / w; !(e <= limit) {
			t.Fatalf("loss of step %d is %.9g on PyTorch and %.9g on gpu-ref, want them within %g of each other", i+1, got[i], w, limit)
		}
	}
	if want[steps-1] > 0.95*want[0] {
		t.Errorf("the loss goes from %g to %g: nothing was learned, so nothing is shown", want[0], want[steps-1])
	}
}

// batch is a global batch of 8 sequences of words in a pattern.
func batch(p backend.Program, step int) *bert.Batch {
	b := &bert.Batch{Size: 8, Length: p.Length, Predictions: p.MaxPredictions}
	for i := range b.Size * b.Length {
		b.InputIDs = append(b.InputIDs, int32((i*(step%5+1)+i/b.Length)%p.Model.VocabSize))
		b.TokenTypeIDs = append(b.TokenTypeIDs, int32(i%b.Length/8))
		b.AttentionMask = append(b.AttentionMask, int32(min(1, (b.Length-i%b.Length)/(1+i/b.Length%3)))) // up to two tokens of padding
	}
	for i := range b.Size * b.Predictions {
		b.MaskedLMPositions = append(b.MaskedLMPositions, int32((i*5+step)%b.Length))
		b.MaskedLMIDs = append(b.MaskedLMIDs, int32(i*7%20))
		b.MaskedLMWeights = append(b.MaskedLMWeights, float32(min(1, i%5)))
	}
	for i := range b.Size {
		b.NextSentenceLabels = append(b.NextSentenceLabels, int32((i+step)%2))
	}
	return b
}

// sameOverStream: gradients have the same bits, with dropout and in two micro-batches, whether memory is shared or
// streamed.
func sameOverStream(t *testing.T, shared backend.Backend) {
	p := backend.Program{
		Model: model(), Head: bert.Head{Task: bert.QuestionAnswering}, Precision: "fp32", Seed: 3,
		Length: 16, MicroBatch: 2, Accumulation: 2, Replicas: 1,
	}
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	global := &bert.Batch{
		Size: 4, Length: p.Length, InputIDs: make([]int32, 64), TokenTypeIDs: make([]int32, 64), AttentionMask: make([]int32, 64),
		StartPositions: []int32{1, 2, 3, 4}, EndPositions: []int32{5, 6, 7, 8},
	}
	for i := range global.InputIDs {
		global.InputIDs[i], global.AttentionMask[i] = int32(i), 1
	}
	micro := func(yield func(*bert.Batch, error) bool) {
		_ = yield(global.Slice(0, 2), nil) && yield(global.Slice(2, 4), nil)
	}
	var grads [2][]float32
	for i, b := range []backend.Backend{shared, start(t, spec(t, plugin.Backend, host.Stream, "backend")).Backend()} {
		m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
		bert.Initialize(p.Model, l, m.Params, 1)
		s, err := b.Open(t.Context(), p, m)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Step(t.Context(), backend.Step{Step: 1, Sequences: 4}, micro); err != nil || !r.Finite {
			t.Fatalf("step: %+v, %v", r, err)
		}
		grads[i] = m.Grads
	}
	for i, g := range grads[0] {
		if math.Float32bits(g) != math.Float32bits(grads[1][i]) {
			t.Fatalf("gradient %d is %g in shared memory and %g over the stream", i, g, grads[1][i])
		}
	}
}

// TestOptimizers runs a class through the wire, named without regard to case. TestPython tries them all, over
// memory of its own.
func TestOptimizers(t *testing.T) {
	o := start(t, spec(t, plugin.Optimizer, host.Stream, "optimizer", "adamw")).Optimizer()
	for _, r := range optimizertest.Conformance(t.Context(), o) {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	}
	likeBuiltIn(t, o)
}

// likeBuiltIn: AdamW of torch.optim and of this project are the same rule, up to the order of operations in float32.
func likeBuiltIn(t *testing.T, torchs optimizer.Optimizer) {
	options := map[string]string{"beta2": "0.98", "eps": "1e-6", "weight_decay": "0.1", "max_grad_norm": "1"}
	l, err := bert.Parameters(model(), bert.Head{Task: bert.QuestionAnswering})
	if err != nil {
		t.Fatal(err)
	}
	run := func(o optimizer.Optimizer) []float32 {
		slots, err := o.Slots(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		m := optimizer.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
		for range slots {
			m.Slots = append(m.Slots, make([]float32, l.Len()))
		}
		bert.Initialize(model(), l, m.Params, 1)
		s, err := o.Open(t.Context(), options, m)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for step := 1; step <= 5; step++ {
			bert.Initialize(model(), l, m.Grads, uint64(step))
			if _, err := s.Step(t.Context(), optimizer.Step{Step: step, LR: 0.01}); err != nil {
				t.Fatal(err)
			}
		}
		return m.Params
	}
	got, want := run(torchs), run(adamw.New())
	wide := make([]float64, len(want))
	for i, w := range want {
		wide[i] = float64(w)
	}
	// A root of a second moment that is near zero magnifies an error of 6e-8.
	if e := agreement.RelError(got, wide); e > 1e-6 {
		t.Errorf("parameters differ by %.2g of their norm from those of adamw after 5 steps, want at most 1e-6", e)
	}
}

func model() bert.Config {
	c := bert.Defaults()
	c.VocabSize, c.HiddenSize, c.NumHiddenLayers, c.NumAttentionHeads, c.IntermediateSize, c.MaxPositionEmbeddings = 97, 32, 2, 2, 64, 32
	return c
}

// TestPython runs the tests that are written in Python: every class of torch.optim against its plain use.
func TestPython(t *testing.T) {
	s := spec(t, plugin.Optimizer, host.Memory)
	cmd := exec.CommandContext(t.Context(), s.Path, "-B", "testdata/optimizer_test.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+s.Args[0], "OMP_NUM_THREADS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
