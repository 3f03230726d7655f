package gpuref

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Every product's inputs are in the format that it names.
func init() { kernels.CheckInputs = true }

var model = bert.Config{
	VocabSize: 40, HiddenSize: 16, NumHiddenLayers: 1, NumAttentionHeads: 2, IntermediateSize: 32, HiddenAct: bert.GELU,
	MaxPositionEmbeddings: 8, TypeVocabSize: 2, InitializerRange: 0.05, LayerNormEps: 1e-12, AttentionMask: -10000,
}

func start(t *testing.T, precision string, options map[string]string) (backend.Session, backend.Memory, error) {
	t.Helper()
	return startCut(t, precision, options, 2, 1, 1)
}

// startCut opens a program that cuts its batch.
func startCut(
	t *testing.T, precision string, options map[string]string, micro, accumulation, replicas int,
) (backend.Session, backend.Memory, error) {
	t.Helper()
	head := bert.Head{Task: bert.Classification, Labels: 2}
	l, err := bert.Parameters(model, head)
	if err != nil {
		t.Fatal(err)
	}
	m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	bert.Initialize(model, l, m.Params, 1)
	p := backend.Program{
		Model: model, Head: head, Precision: precision, Options: options, Length: 8,
		MicroBatch: micro, Accumulation: accumulation, Replicas: replicas,
	}
	s, err := New().Open(t.Context(), p, m)
	if err == nil {
		err = s.Commit(t.Context(), 0)
	}
	return s, m, err
}

func batches(yield func(*bert.Batch, error) bool) {
	b := &bert.Batch{
		Size: 2, Length: 8, InputIDs: make([]int32, 16), TokenTypeIDs: make([]int32, 16), AttentionMask: make([]int32, 16),
		Labels: []int32{0, 1},
	}
	for i := range b.InputIDs {
		b.InputIDs[i], b.AttentionMask[i] = int32(i*7%40), 1
	}
	yield(b, nil)
}

var _ iter.Seq2[*bert.Batch, error] = batches

func step(t *testing.T, s backend.Session, n int) backend.StepResult {
	t.Helper()
	r, err := s.Step(t.Context(), backend.Step{Step: n, Sequences: 2}, batches)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLossScale follows GradScaler: a scale far too large overflows, is halved step by step until gradients are
// finite, and doubles again after growth_interval good steps.
func TestLossScale(t *testing.T) {
	s, _, err := start(t, "fp16", map[string]string{"init_scale": "1073741824", "growth_interval": "3"})
	if err != nil {
		t.Fatal(err)
	}
	n, scale := 1, float64(1<<30)
	r := step(t, s, n)
	for ; !r.Finite; n++ {
		if n > 30 {
			t.Fatal("no scale gives finite gradients")
		}
		if r.LossScale != scale {
			t.Fatalf("step %d ran with scale %g, want %g", n, r.LossScale, scale)
		}
		scale /= 2
		r = step(t, s, n+1)
	}
	if n == 1 {
		t.Fatal("a scale of 2^30 did not overflow")
	}
	for range 2 {
		n++
		if r = step(t, s, n); r.LossScale != scale || !r.Finite {
			t.Fatalf("step %d: scale %g, finite %v, want %g and true", n, r.LossScale, r.Finite, scale)
		}
	}
	if r = step(t, s, n+1); r.LossScale != 2*scale {
		t.Errorf("after 3 finite steps the scale is %g, want %g", r.LossScale, 2*scale)
	}
	state, err := s.Save(t.Context())
	if err != nil || !strings.Contains(string(state), `"_growth_tracker"`) {
		t.Errorf("state is %s (%v), want GradScaler's keys", state, err)
	}
	other, _, err := start(t, "fp16", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Load(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if a, b := step(t, s, 100), step(t, other, 100); a.LossScale != b.LossScale {
		t.Errorf("a restored session has scale %g, want %g", b.LossScale, a.LossScale)
	}
}

// TestMasters: Commit leaves FP32 parameters as they are, in every precision.
func TestMasters(t *testing.T) {
	for _, p := range info.Precisions {
		_, m, err := start(t, p.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		rounded := 0
		for _, v := range m.Params {
			if v != numerics.FP16.Round(v) {
				rounded++
			}
		}
		if rounded < len(m.Params)/2 {
			t.Errorf("%s: only %d of %d parameters have more digits than FP16", p.Name, rounded, len(m.Params))
		}
	}
}

// gradients are those of 8 sequences, cut in micro-batches.
func gradients(t *testing.T, precision string, options map[string]string, micro, accumulation, replicas int) []float32 {
	t.Helper()
	s, m, err := startCut(t, precision, options, micro, accumulation, replicas)
	if err != nil {
		t.Fatal(err)
	}
	b := &bert.Batch{
		Size: 8, Length: 8, InputIDs: make([]int32, 64), TokenTypeIDs: make([]int32, 64), AttentionMask: make([]int32, 64),
		Labels: []int32{0, 1, 1, 0, 0, 1, 0, 0},
	}
	for i := range b.InputIDs {
		b.InputIDs[i], b.AttentionMask[i] = int32(i*7%40), 1
	}
	r, err := s.Step(t.Context(), backend.Step{Step: 1, Sequences: 8}, func(yield func(*bert.Batch, error) bool) {
		for i := 0; i < 8; i += micro {
			if !yield(b.Slice(i, i+micro), nil) {
				return
			}
		}
	})
	if err != nil || !r.Finite {
		t.Fatalf("%v, finite %v", err, r.Finite)
	}
	return m.Grads
}

// distance is the norm of x - y over that of y.
func distance(x, y []float32) float64 {
	var d, n float64
	for i := range x {
		d += float64(x[i]-y[i]) * float64(x[i]-y[i])
		n += float64(y[i]) * float64(y[i])
	}
	return math.Sqrt(d / n)
}

// TestReduction: when replicas are reduced, and in which buckets, changes the order of sums and nothing else; keeping
// fewer activations changes no bit.
func TestReduction(t *testing.T) {
	exact := gradients(t, "fp32", nil, 8, 1, 1)
	for _, c := range []struct {
		precision, name, value string
		limit                  float64 // of the difference
	}{
		{"fp32", "allreduce_post_accumulation", "false", 1e-6},
		{"fp16-o2", "allreduce_post_accumulation", "false", 1e-2},
		{"fp32", "checkpoint_activations", "true", 0},
		{"fp16", "checkpoint_activations", "true", 0},
	} {
		options := map[string]string{"loss_scale": "64"}
		before := gradients(t, c.precision, options, 1, 2, 4)
		options[c.name] = c.value
		after := gradients(t, c.precision, options, 1, 2, 4)
		e := distance(after, before)
		if e > c.limit || (e == 0) != (c.limit == 0) {
			t.Errorf("%s=%s in %s changes the gradient by %.2g, want at most %g and only then something", c.name, c.value, c.precision, e, c.limit)
		}
		if e := distance(after, exact); e > 2e-2 {
			t.Errorf("%s=%s in %s: gradient is off by %.2g", c.name, c.value, c.precision, e)
		}
	}
}

// TestPure: at O2 the optimizer's parameters are masters, of which the device uses an FP16 copy: a change below its
// resolution leaves the step alone.
func TestPure(t *testing.T) {
	s, m, err := start(t, "fp16-o2", map[string]string{"loss_scale": "64"})
	if err != nil {
		t.Fatal(err)
	}
	step(t, s, 1)
	first := slices.Clone(m.Grads)
	for i, v := range m.Params {
		m.Params[i] = numerics.FP16.Round(v)
	}
	if err := s.Commit(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	step(t, s, 2)
	if !slices.Equal(m.Grads, first) {
		t.Error("the device computes with more digits than FP16 has")
	}
	// FP16 gradients at a scale of 64, unscaled: all are multiples of FP16's smallest number over the scale, and have
	// 11 digits.
	for i, g := range first {
		if g*64 != numerics.FP16.Round(g*64) {
			t.Fatalf("gradient %d is %g, which FP16 lacks at a scale of 64", i, g)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		precision string
		options   map[string]string
		scale     float64
	}{
		{"fp32", nil, 1}, {"tf32", nil, 1}, {"bf16", nil, 1}, {"fp16", nil, 65536}, {"fp16", map[string]string{"loss_scale": "128"}, 128},
		{"bf16", map[string]string{"loss_scale": "dynamic", "init_scale": "8"}, 8}, {"fp16-o2", nil, 65536}, {"", nil, 1},
	} {
		s, _, err := start(t, test.precision, test.options)
		if err != nil {
			t.Errorf("%s %v: %v", test.precision, test.options, err)
			continue
		}
		if r := step(t, s, 1); r.LossScale != test.scale {
			t.Errorf("%s %v: loss scale %g, want %g", test.precision, test.options, r.LossScale, test.scale)
		}
	}
	for _, options := range []map[string]string{
		{"loss_scale": "0"}, {"loss_scale": "-1"}, {"loss_scale": "much"}, {"loss_scale": "NaN"},
		{"init_scale": "0"}, {"growth_interval": "0"}, {"growth_interval": "1.5"}, {"los_scale": "1"},
		{"bucket_cap_mb": "0"}, {"allreduce_post_accumulation": "later"}, {"checkpoint_activations": "2"},
	} {
		if _, _, err := start(t, "fp16", options); err == nil || !strings.HasPrefix(err.Error(), "gpu-ref: ") {
			t.Errorf("%v: %v, want an error of gpu-ref", options, err)
		}
	}
	if _, _, err := start(t, "fp61", nil); err == nil || !strings.Contains(err.Error(), "fp16") {
		t.Errorf("precision fp61: %v, want an error that names fp16", err)
	}
}

// TestInspect: every second step says what the formats of all operands did, of which none saturates with a tensor's own
// scale, and nothing else changes. One step behind, with delayed scales, they do as the gradient grows.
func TestInspect(t *testing.T) {
	text, err := emulator.PolicyText("fp8-current")
	if err != nil {
		t.Fatal(err)
	}
	delayed, err := emulator.PolicyText("fp8")
	if err != nil {
		t.Fatal(err)
	}
	of := func(policy []byte, every string) (list [][]backend.Quantised, grads []float32) {
		s, m, err := start(t, "mine", map[string]string{backend.PolicyOption: string(policy), backend.InspectOption: every})
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 4; n++ {
			list = append(list, step(t, s, n).Quantised)
			for i, p := range m.Params { // growing weights
				m.Params[i] = 2 * p
			}
			if err := s.Commit(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		return list, slices.Clone(m.Grads)
	}
	list, grads := of(text, "2")
	if _, plain := of(text, "0"); !slices.Equal(plain, grads) {
		t.Error("inspection changes bits")
	}
	if list[0] != nil || list[2] != nil || len(list[1]) != 6*6 || len(list[3]) != 6*6 { // linear operators of a layer
		t.Fatalf("steps have %d, %d, %d and %d operands, want 0, 36, 0, 36", len(list[0]), len(list[1]), len(list[2]), len(list[3]))
	}
	first := list[1][0]
	if first.Operator != "bert.encoder.layer.0.attention.self.query" || first.Operand != "forward.input" || first.Format != "e4m3-tensor" ||
		first.Values != 2*16 { // at the end only the first token of each sequence is computed
		t.Errorf("the first is %+v", first)
	}
	for _, q := range list[1] {
		if q.Saturated != 0 || !(q.RelError > 0 && q.RelError < 0.15) || !(q.Cosine > 0.98) || math.Abs(q.Scale*q.Largest/448-1) > 1e-6 &&
			math.Abs(q.Scale*q.Largest/57344-1) > 1e-6 {
			t.Errorf("with its own scale an operand is %+v", q)
		}
	}
	saturated := 0
	list, _ = of(delayed, "2")
	for _, q := range list[3] {
		if q.Operand == "forward.weight" && q.Saturated > 0 {
			saturated++
		}
	}
	if saturated != 6 {
		t.Errorf("%d weights of 6 saturate that are twice what they were a step before", saturated)
	}
}
