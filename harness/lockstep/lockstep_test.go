package lockstep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/lockstep"
	"harness.invalid/harness/report"
	"harness.invalid/harness/train"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/results"
)

// planted is gpu-ref with a fault.
type planted struct {
	backend.Backend
	program func(*backend.Program)
	rate    float64 // factor of the learning rate; 0: 1
	mute    bool    // no traces
	unread  float32 // value that a trace puts into rows that gpu-ref does not compute
}

func (p planted) Open(ctx context.Context, program backend.Program, m backend.Memory) (backend.Session, error) {
	if p.program != nil {
		p.program(&program)
	}
	s, err := p.Backend.Open(ctx, program, m)
	if p.mute {
		s = struct{ backend.Session }{s}
	}
	if p.unread != 0 {
		s = fullSession{s, p.unread}
	}
	return s, err
}

// fullSession traces all rows.
type fullSession struct {
	backend.Session
	unread float32
}

func (s fullSession) Trace(
	ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error], yield func(backend.Traced) error,
) (backend.StepResult, error) {
	return s.Session.(backend.Tracer).Trace(ctx, step, batches, func(t backend.Traced) error {
		t.Values = slices.Clone(t.Values)
		if t.Operator == "bert.encoder.layer.1.output.LayerNorm" && !t.Gradient {
			for row := range slices.Chunk(t.Values, t.Shape[1]) {
				if !slices.ContainsFunc(row, func(v float32) bool { return v != 0 }) {
					row[0] = s.unread
				}
			}
		}
		return yield(t)
	})
}

// plugins are the plugins of one side, in the process of the test.
type plugins struct{ of planted }

func (p plugins) Backend() backend.Backend { return p.of }

func (p plugins) Optimizer(context.Context, string) (optimizer.Optimizer, error) {
	return faster{adamw.New(), p.of.rate}, nil
}

func (p plugins) Allocate(l *tensor.Layout, slots int) (train.Memory, error) {
	m := train.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	return m, nil
}

// faster is an optimizer with another learning rate.
type faster struct {
	optimizer.Optimizer
	rate float64
}

func (f faster) Open(ctx context.Context, options map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	s, err := f.Optimizer.Open(ctx, options, m)
	if f.rate == 0 {
		return s, err
	}
	return fasterSession{s, f.rate}, err
}

type fasterSession struct {
	optimizer.Session
	rate float64
}

func (s fasterSession) Step(ctx context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	step.LR *= s.rate
	return s.Session.Step(ctx, step)
}

// follow compares a planted backend with gpu-ref, each in a precision of gpu-ref.
func follow(t *testing.T, of planted, precisions [2]string, steps int, resync bool, sets ...string) *lockstep.Record {
	return followSeed(t, 2, of, precisions, steps, resync, sets...)
}

func followSeed(t *testing.T, seed uint64, of planted, precisions [2]string, steps int, resync bool, sets ...string) *lockstep.Record {
	t.Helper()
	recipe, err := recipe.Load("../testdata/mini.yaml", append([]string{"phases.phase1.schedule.warmup_ratio=0"}, sets...)...)
	if err != nil {
		t.Fatal(err)
	}
	data, err := train.OpenData(recipe, t.TempDir(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	of.Backend = gpuref.New()
	info, err := of.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &lockstep.Record{Recipe: recipe.Name, Resync: resync}
	l := train.Lockstep{Steps: steps, Resync: resync, Observe: func(s *train.LockedStep) error { r.Add(s); return nil }}
	for i, side := range []planted{{Backend: gpuref.New()}, of} {
		p, err := info.Precision(precisions[i])
		if err != nil {
			t.Fatal(err)
		}
		name := []string{"sound", "planted"}[i]
		r.Sides[i] = lockstep.Side{
			Backend: name, Precision: p.Name, OutputTolerance: p.OutputTolerance, GradientTolerance: p.GradientTolerance,
		}
		l.Jobs[i] = train.Job{
			Recipe: recipe, Data: data, Backend: "gpu-ref", Precision: p.Name, Seed: seed, Plugins: plugins{side},
			Identity: results.Identity{Backend: name},
		}
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Conclude()
	return r
}

// TestPlanted: a fault planted in one backend is found at its operator, with its reason.
func TestPlanted(t *testing.T) {
	option := func(name, value string) func(*backend.Program) {
		return func(p *backend.Program) { p.Options = map[string]string{name: value} }
	}
	fp32, fp16 := [2]string{"fp32", "fp32"}, [2]string{"fp32", "fp16"}
	// With weights this large, activations reach the values at which their constants matter.
	wide := "model.initializer_range=0.2"
	for name, test := range map[string]struct {
		of         planted
		precisions [2]string
		set        string
		resync     bool
		step       int
		kind       lockstep.Kind
		tensor     string
		reason     lockstep.Reason
	}{
		"another GELU": {planted{program: func(p *backend.Program) { p.Model.HiddenAct = bert.GELU }}, fp32, wide, false,
			1, lockstep.Activation, "bert.encoder.layer.0.intermediate.dense", lockstep.Operator},
		"another epsilon": {planted{program: func(p *backend.Program) { p.Model.LayerNormEps = 1e-3 }}, fp32, wide, false,
			1, lockstep.Activation, "bert.embeddings", lockstep.Operator},
		"heads of another width": {planted{program: func(p *backend.Program) { p.Model.NumAttentionHeads = 4 }}, fp32, wide, false,
			1, lockstep.Activation, "bert.encoder.layer.0.attention.self", lockstep.Operator},
		"a loss scale too high": {planted{program: option("loss_scale", "16777216")}, fp16, "", false,
			1, lockstep.ActivationGradient, "cls.seq_relationship", lockstep.Overflow},
		"a loss scale too low": {planted{program: option("loss_scale", "1e-4")}, fp16, "", true,
			1, lockstep.ActivationGradient, "cls.predictions.decoder", lockstep.Underflow},
		"another learning rate": {planted{rate: 1.5}, fp32, "", false,
			2, lockstep.Activation, "bert.embeddings", lockstep.Drift},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sets []string
			if test.set != "" {
				sets = append(sets, test.set)
			}
			v := follow(t, test.of, test.precisions, 3, test.resync, sets...).Verdict
			if !v.Parted || v.Step != test.step || v.First.Kind != test.kind || v.First.Tensor != test.tensor || v.Reason != test.reason {
				t.Errorf("they diverge (%v) in step %d at %s %s for %s, want step %d, %s %s, %s:\n%s",
					v.Parted, v.Step, v.First.Kind, v.First.Tensor, v.Reason, test.step, test.kind, test.tensor, test.reason, strings.Join(v.Text, "\n"))
			}
			if (v.Reason == lockstep.Overflow || v.Reason == lockstep.Underflow) && v.Side != "planted" {
				t.Errorf("the reason is on side %q, want planted", v.Side)
			}
		})
	}
}

// TestUnreadTokens: after the last layer's attention, only the rows of the read tokens are compared.
func TestUnreadTokens(t *testing.T) {
	r := follow(t, planted{unread: 1e6}, [2]string{"fp32", "fp32"}, 1, false)
	for _, d := range r.Steps[0].Tensors {
		if d.Relative != 0 {
			t.Errorf("%s %s differs by %g", d.Kind, d.Tensor, d.Relative)
		}
		if d.Tensor == "bert.encoder.layer.1.output.LayerNorm" && d.Count == 0 {
			t.Error("no rows of the last layer are compared")
		}
	}
}

// TestNothingPlanted: a backend equals itself to the bit, a sound narrow format stays within its tolerance, and
// from equal weights another learning rate makes no difference.
func TestNothingPlanted(t *testing.T) {
	r := follow(t, planted{}, [2]string{"fp32", "fp32"}, 2, false)
	for _, s := range r.Steps {
		for _, d := range s.Tensors {
			if d.Relative != 0 || d.Sides[0] != d.Sides[1] {
				t.Errorf("step %d: %s %s differs by %g from itself", s.Step, d.Kind, d.Tensor, d.Relative)
			}
		}
	}
	l := len(bert.Operators(bert.Config{NumHiddenLayers: 2}, bert.Head{Task: bert.Pretraining}))
	if n := len(r.Steps[0].Tensors); n <= 2*l {
		t.Errorf("%d tensors are compared, want the results and gradients of %d operators, and every parameter twice", n, l)
	}
	for name, r := range map[string]*lockstep.Record{
		"fp16":                            follow(t, planted{}, [2]string{"fp32", "fp16"}, 2, true),
		"another rate from equal weights": follow(t, planted{rate: 1.5}, [2]string{"fp32", "fp32"}, 3, true),
	} {
		if v := r.Verdict; v.Parted || v.First == nil || !strings.HasPrefix(v.Text[0], "They do not diverge in ") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestCancellation: where the terms of a sum cancel, rounding does not count as divergence, and a fault is still
// found. The gradients of next sentences nearly cancel in the first batch with seed 1, and in the second batch with
// seed 3.
func TestCancellation(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed += 2 {
		cancelled := 0.0
		for _, precision := range []string{"fp16", "bf16"} {
			r := followSeed(t, seed, planted{}, [2]string{"fp32", precision}, 2, true)
			if v := r.Verdict; v.Parted {
				t.Errorf("seed %d, %s: %s", seed, precision, strings.Join(v.Text, "\n"))
			}
			for _, s := range r.Steps {
				for _, d := range s.Tensors {
					weight := d.Kind == lockstep.Gradient && strings.Contains(d.Tensor, "cls.seq_relationship.weight")
					if weight && d.Tolerance > 0 && d.Sides[0].Norm > 0 {
						cancelled = max(cancelled, float64(d.Against/d.Sides[0].Norm))
					}
				}
			}
		}
		if cancelled < 3 {
			t.Errorf("seed %d: terms are at most %.2g times their sum: nothing cancels, so this tests nothing", seed, cancelled)
		}
		low := planted{program: func(p *backend.Program) { p.Options = map[string]string{"loss_scale": "1e-4"} }}
		v := followSeed(t, seed, low, [2]string{"fp32", "fp16"}, 1, true).Verdict
		if !v.Parted || v.Reason != lockstep.Underflow || v.Side != "planted" {
			t.Errorf("seed %d, a loss scale too low: %s on side %q:\n%s", seed, v.Reason, v.Side, strings.Join(v.Text, "\n"))
		}
	}
}

// TestMute: a backend that does not trace is compared in gradients and weights, with a note.
func TestMute(t *testing.T) {
	mute := planted{mute: true, program: func(p *backend.Program) { p.Model.LayerNormEps = 1e-3 }}
	r := follow(t, mute, [2]string{"fp32", "fp32"}, 1, false)
	if v := r.Verdict; !v.Parted || v.First.Kind != lockstep.Gradient {
		t.Errorf("the first difference is %+v, want one of a gradient", v.First)
	}
	if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "planted does not trace") {
		t.Errorf("notes %q", r.Notes)
	}
}

// locked is a step with a single tensor, the result of the embeddings of one sequence.
func locked(a, b []float32, format numerics.Format) *train.LockedStep {
	config := bert.Defaults()
	config.NumHiddenLayers = 1
	l, err := tensor.NewLayout()
	if err != nil {
		panic(err)
	}
	tokens := len(a) / config.HiddenSize
	mask := make([]int32, tokens)
	for i := range mask {
		mask[i] = 1
	}
	s := &train.LockedStep{
		Step: 1, Steps: 1, Phase: &recipe.Phase{Name: "phase1"}, Layout: l,
		Traced:  &bert.Batch{Size: 1, Length: tokens, AttentionMask: mask},
		Program: backend.Program{Model: config, Head: bert.Head{Task: bert.QuestionAnswering}},
	}
	for i, values := range [][]float32{a, b} {
		name := []string{"fp32", format.String()}[i]
		s.Sides[i].Traced = []backend.Traced{{Operator: "bert.embeddings", Scale: 1, Format: name, Values: values}}
		s.Sides[i].Result.Finite = true
	}
	return s
}

// TestBias: truncation to FP16 is a bias; rounding to nearest, under the same tolerance, is not.
func TestBias(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := make([]float32, 7*bert.Defaults().HiddenSize)
	truncated, nearest := make([]float32, len(x)), make([]float32, len(x))
	for i := range x {
		x[i] = float32(1 + r.Float64())
		truncated[i] = math.Float32frombits(math.Float32bits(x[i]) &^ 0x1fff)
		nearest[i] = numerics.FP16.Round(x[i])
	}
	for name, test := range map[string]struct {
		values []float32
		want   lockstep.Reason
	}{"truncated": {truncated, lockstep.Bias}, "nearest": {nearest, lockstep.Rounding}} {
		r := &lockstep.Record{Sides: [2]lockstep.Side{{Backend: "a"}, {Backend: "b", OutputTolerance: 1e-4}}}
		r.Add(locked(x, test.values, numerics.FP16))
		r.Conclude()
		if v := r.Verdict; !v.Parted || v.Reason != test.want {
			t.Errorf("%s: %s, want %s:\n%s", name, v.Reason, test.want, strings.Join(v.Text, "\n"))
		}
	}
}

// TestWrite: every format has the verdict or the numbers, and JSON can be read back.
func TestWrite(t *testing.T) {
	high := planted{program: func(p *backend.Program) { p.Options = map[string]string{"loss_scale": "16777216"} }}
	r := follow(t, high, [2]string{"fp32", "fp16"}, 1, false)
	for format, want := range map[report.Format]string{
		report.Table: "Likely reason: overflow.", report.Markdown: "Likely reason: overflow.", report.HTML: "Likely reason: overflow.",
		report.CSV: "1,activation gradient,cls.seq_relationship,loss,8,+Inf,0.0201,true,", report.JSON: `"relative": "Infinity"`,
	} {
		var out bytes.Buffer
		if err := r.Write(&out, report.Options{Format: format}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: error %v, want %q in\n%.3000s", format, err, want, out.String())
		}
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back lockstep.Record
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Verdict.First.Tensor != r.Verdict.First.Tensor {
		t.Errorf("read back: %v, %+v", err, back.Verdict.First)
	}
}

// TestStops: an error of a side or of the observer ends a lockstep.
func TestStops(t *testing.T) {
	broken := errors.New("enough")
	for _, test := range []struct {
		steps int
		want  string
	}{{0, "lockstep of 0 steps, want at least 1"}, {2, "enough"}} {
		recipe, err := recipe.Load("../testdata/mini.yaml")
		if err != nil {
			t.Fatal(err)
		}
		data, err := train.OpenData(recipe, t.TempDir(), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		l := train.Lockstep{Steps: test.steps, Observe: func(*train.LockedStep) error { return broken }}
		for i := range l.Jobs {
			l.Jobs[i] = train.Job{Recipe: recipe, Data: data, Seed: 1, Plugins: plugins{planted{Backend: gpuref.New()}}}
		}
		if err := errors.Join(l.Run(t.Context()), data.Close()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d steps: %v, want %q", test.steps, err, test.want)
		}
	}
}
