package ipu

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Every product's inputs are in the format that it names.
func init() { kernels.CheckInputs = true }

var model = bert.Config{
	VocabSize: 40, HiddenSize: 16, NumHiddenLayers: 1, NumAttentionHeads: 2, IntermediateSize: 320, HiddenAct: bert.GELUNew,
	MaxPositionEmbeddings: 8, TypeVocabSize: 2, InitializerRange: 0.05, LayerNormEps: 1e-12, AttentionMask: -10000,
}

// program is a classification of 4 sequences as accumulation x replicas micro-batches.
func program(precision string, accumulation, replicas int, options map[string]string) backend.Program {
	return backend.Program{
		Model: model, Head: bert.Head{Task: bert.Classification, Labels: 2}, Precision: precision, Options: options, Seed: 1,
		Length: 8, MicroBatch: 4 / (accumulation * replicas), Accumulation: accumulation, Replicas: replicas,
	}
}

func start(t *testing.T, p backend.Program) (backend.Session, backend.Memory, error) {
	t.Helper()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	bert.Initialize(p.Model, l, m.Params, 1)
	s, err := New().Open(t.Context(), p, m)
	if err == nil {
		err = s.Commit(t.Context(), 0)
	}
	return s, m, err
}

// gradients runs a step and returns its gradient and result.
func gradients(t *testing.T, p backend.Program, step int) ([]float32, backend.StepResult) {
	t.Helper()
	s, m, err := start(t, p)
	if err != nil {
		t.Fatal(err)
	}
	return m.Grads, stepOf(t, s, p, step)
}

// stepOf runs a step of a classification.
func stepOf(t *testing.T, s backend.Session, p backend.Program, step int) backend.StepResult {
	t.Helper()
	r, err := s.Step(t.Context(), backend.Step{Step: step, Sequences: 4}, cutBatch(p))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cutBatch deals 4 sequences in the program's micro-batches.
func cutBatch(p backend.Program) iter.Seq2[*bert.Batch, error] {
	b := &bert.Batch{
		Size: 4, Length: 8, InputIDs: make([]int32, 32), TokenTypeIDs: make([]int32, 32), AttentionMask: make([]int32, 32),
		Labels: []int32{0, 1, 1, 0},
	}
	for i := range b.InputIDs {
		b.InputIDs[i], b.AttentionMask[i] = int32(i*7%40), int32(min(1, (i+1)%8))
	}
	return func(yield func(*bert.Batch, error) bool) {
		for i := 0; i < 4; i += p.MicroBatch {
			if !yield(b.Slice(i, i+p.MicroBatch), nil) {
				return
			}
		}
	}
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

// TestCommit: weights are FP16 after a commit, rounded stochastically without bias or to the nearest. The mean
// difference of 12,000 values with a rounding error of 2e-5 each is below 1e-6 when there is no bias.
func TestCommit(t *testing.T) {
	before := func() []float32 {
		l, err := bert.Parameters(model, bert.Head{Task: bert.Classification, Labels: 2})
		if err != nil {
			t.Fatal(err)
		}
		params := make([]float32, l.Len())
		bert.Initialize(model, l, params, 1)
		return params
	}()
	for _, stochastic := range []string{"true", "false"} {
		_, m, err := start(t, program("fp16.16", 1, 1, map[string]string{"stochastic_rounding": stochastic}))
		if err != nil {
			t.Fatal(err)
		}
		var bias float64
		same := 0
		for i, v := range m.Params {
			nearest := numerics.FP16.Round(before[i])
			if v == nearest {
				same++
			}
			if v != numerics.FP16.Round(v) {
				t.Fatalf("parameter %d is %g, which FP16 lacks", i, v)
			}
			bias += float64(v - before[i])
		}
		if bias /= float64(len(m.Params)); math.Abs(bias) > 1e-6 {
			t.Errorf("stochastic_rounding=%s: mean difference %.2g", stochastic, bias)
		}
		if all := same == len(m.Params); all != (stochastic == "false") {
			t.Errorf("stochastic_rounding=%s: %d of %d parameters are the nearest", stochastic, same, len(m.Params))
		}
	}
	_, m, err := start(t, program("fp32", 1, 1, nil))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Params, before) {
		t.Error("fp32 changes parameters")
	}
}

// TestRounding: stochastic rounding differs from step to step, nearest does not; both are near FP32.
func TestRounding(t *testing.T) {
	exact, _ := gradients(t, program("fp32", 1, 1, nil), 1)
	for _, stochastic := range []bool{true, false} {
		options := map[string]string{"stochastic_rounding": map[bool]string{true: "true", false: "false"}[stochastic]}
		first, r := gradients(t, program("fp16.16", 1, 1, options), 1)
		second, _ := gradients(t, program("fp16.16", 1, 1, options), 2)
		if r.LossScale != 4096 || !r.Finite || r.Overflows != 0 {
			t.Errorf("loss scale %g, finite %v, %d overflows, want 4096, true, 0", r.LossScale, r.Finite, r.Overflows)
		}
		if slices.Equal(first, second) == stochastic {
			t.Errorf("stochastic rounding is %v, gradients of two steps are equal: %v", stochastic, !stochastic)
		}
		if e := distance(first, exact); e < 1e-5 || e > 0.05 {
			t.Errorf("gradient is off by %.2g from FP32's, want 1e-5 to 0.05", e)
		}
	}
}

// TestRoundingSeed: another one rounds otherwise, as far off as the first, and to nearest there is nothing to draw.
func TestRoundingSeed(t *testing.T) {
	exact, _ := gradients(t, program("fp32", 1, 1, nil), 1)
	at := func(seed, stochastic string) []float32 {
		g, _ := gradients(t, program("fp16.16", 1, 1, map[string]string{"rounding_seed": seed, "stochastic_rounding": stochastic}), 1)
		return g
	}
	first := at("0", "true")
	if none, _ := gradients(t, program("fp16.16", 1, 1, nil), 1); !slices.Equal(none, first) {
		t.Error("rounding_seed 0 is not the default")
	}
	a, b := distance(first, exact), distance(at("1", "true"), exact)
	if d := distance(first, at("1", "true")); d < 0.7*min(a, b) || d > 2.8*max(a, b) {
		t.Errorf("gradients of two rounding seeds are %.2g apart, and %.2g and %.2g from FP32's, want about sqrt(2) times that", d, a, b)
	}
	if !slices.Equal(at("0", "false"), at("1", "false")) {
		t.Error("rounding_seed changes rounding to nearest")
	}
}

// TestAccumulation: mean and running mean of FP16 gradients, and replicas, come to the same gradient but for their
// rounding; and that differs.
func TestAccumulation(t *testing.T) {
	exact, _ := gradients(t, program("fp32", 1, 1, nil), 1)
	var results [][]float32
	for _, c := range []struct {
		accumulation, replicas int
		rule                   string
	}{{4, 1, "mean"}, {4, 1, "running_mean"}, {2, 2, "mean"}, {2, 2, "running_mean"}, {1, 4, "mean"}} {
		g, _ := gradients(t, program("fp16.16", c.accumulation, c.replicas, map[string]string{"accumulation": c.rule}), 1)
		if e := distance(g, exact); e > 0.05 {
			t.Errorf("%+v: gradient is off by %.2g from FP32's", c, e)
		}
		for _, other := range results {
			if slices.Equal(g, other) {
				t.Errorf("%+v gives the bits of another way to sum", c)
			}
		}
		results = append(results, g)
		full, _ := gradients(t, program("fp32", c.accumulation, c.replicas, map[string]string{"accumulation": c.rule}), 1)
		if e := distance(full, exact); e > 2e-6 {
			t.Errorf("%+v in fp32: gradient is off by %.2g, want the order of sums only", c, e)
		}
	}
}

// TestPartialsChunk: the more often partial sums are stored in FP16, the larger the error; never storing them is
// fp16.32.
func TestPartialsChunk(t *testing.T) {
	wide := model
	wide.HiddenSize, wide.IntermediateSize = 256, 512
	errorOf := func(precision string, chunk string) float64 {
		at := func(p string) []float32 {
			program := program(p, 1, 1, map[string]string{"stochastic_rounding": "false", "partials_chunk": chunk})
			program.Model = wide
			g, _ := gradients(t, program, 1)
			return g
		}
		return distance(at(precision), at("fp32"))
	}
	whole, coarse, fine := errorOf("fp16.32", "256"), errorOf("fp16.16", "256"), errorOf("fp16.16", "16")
	t.Logf("relative error of the gradient: fp16.32 %.2g, fp16.16 in chunks of 256 %.2g, of 16 %.2g", whole, coarse, fine)
	if !(fine > 1.1*whole && fine > 1.1*coarse && coarse < 2*whole) {
		t.Errorf("errors %.3g, %.3g and %.3g of fp16.32 and chunks of 256 and 16, want the last to stand out", whole, coarse, fine)
	}
}

func TestOverflow(t *testing.T) {
	for overflow, finite := range map[string]bool{"clip": true, "nan": false} {
		_, r := gradients(t, program("fp16.16", 1, 1, map[string]string{"overflow": overflow, "loss_scale": "16777216"}), 1)
		if r.Finite != finite || r.Overflows == 0 {
			t.Errorf("overflow=%s: finite %v, %d overflows, want %v and some", overflow, r.Finite, r.Overflows, finite)
		}
	}
}

// TestFP8: gradients differ from fp16.16's by what FP8 has of digits. With a history, step 1 has scales of 1, and a loss
// scale of 2^24 takes gradients beyond F152: they become its largest value, or not a number.
func TestFP8(t *testing.T) {
	wide, _ := gradients(t, program("fp16.16", 1, 1, nil), 1)
	narrow, _ := gradients(t, program("fp8", 1, 1, nil), 1)
	exact := make([]float64, len(wide))
	for i, g := range wide {
		exact[i] = float64(g)
	}
	if e := agreement.RelError(narrow, exact); !(e > 0.001 && e < 0.5) {
		t.Errorf("gradients in FP8 are off by %.3g of FP16's, want 0.001 to 0.5", e)
	}
	for overflow, finite := range map[string]bool{"clip": true, "nan": false} {
		options := map[string]string{"fp8_history": "4", "overflow": overflow, "loss_scale": "1048576"}
		if _, r := gradients(t, program("fp8", 1, 1, options), 1); r.Finite != finite {
			t.Errorf("overflow=%s: finite %v, want %v", overflow, r.Finite, finite)
		}
	}
	chunked, _ := gradients(t, program("fp8", 1, 1, map[string]string{"partials_chunk": "8"}), 1)
	if slices.Equal(chunked, narrow) {
		t.Error("partials_chunk changes nothing")
	}
}

// TestMask: the option decides, and "model" leaves the model's value; the difference shows in FP16, where -10000
// leaves no digits of the score.
func TestMask(t *testing.T) {
	at := func(value string) []float32 {
		g, _ := gradients(t, program("fp16.16", 1, 1, map[string]string{"attention_mask_value": value, "stochastic_rounding": "false"}), 1)
		return g
	}
	if !slices.Equal(at("model"), at("-10000")) || slices.Equal(at("-1000"), at("-1")) {
		t.Error("attention_mask_value is not what is added")
	}
}

func TestOptions(t *testing.T) {
	for name, values := range map[string][]string{
		"stochastic_rounding":         {"maybe", ""},
		"rounding_seed":               {"-1", "x", "65536"},
		"loss_scale":                  {"0", "-2", "NaN", "dynamic", "1e30"},
		"initial_loss_scale":          {"0"},
		"loss_scale_period":           {"0"},
		"loss_scale_bin_edge":         {"0", "2"},
		"loss_scale_threshold":        {"2"},
		"disable_sr_for_amp_vertices": {"1.5"},
		"fp_exceptions":               {"", "div0", "oflow"},
		"pipeline":                    {"1,1"},
		"schedule":                    {"1f1b"},
		"recomputation":               {"some"},
		"execution":                   {"sharded"},
		"layers_per_phase":            {"0"},
		"embedding_serialization":     {"0"},
		"replicated_tensor_sharding":  {"maybe"},
		"first_moment":                {"bf16"},
		"optimizer_state":             {"disk"},
		"available_memory_proportion": {"0", "2", "0.1,", "x"},
		"accumulation":                {"sum"},
		"partials_chunk":              {"0", "257", "x"},
		"overflow":                    {"wrap"},
		"attention_mask_value":        {"0", "5", "NaN", "none"},
		"master_weights":              {"true"},
		"fp8_history":                 {"-1", "65537"},
	} {
		for _, value := range values {
			_, _, err := start(t, program("fp16.16", 1, 1, map[string]string{name: value}))
			if err == nil || !strings.HasPrefix(err.Error(), "ipu: ") {
				t.Errorf("%s=%s: %v, want an error of ipu", name, value, err)
			}
		}
	}
	if _, _, err := start(t, program("fp16", 1, 1, nil)); err == nil || !strings.Contains(err.Error(), "fp16.16") {
		t.Errorf("precision fp16: %v, want an error that names fp16.16", err)
	}
}
