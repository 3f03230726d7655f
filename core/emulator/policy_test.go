package emulator_test

import (
	"math"
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
)

// TestRoundingOfActivationsKeepsToTheSample: without partial sums and weight gradients, stochastic rounding of a
// sample does not depend on the cut.
func TestRoundingOfActivationsKeepsToTheSample(t *testing.T) {
	policy := half(true)
	policy.Partials = emulator.Partials{}
	d := emulator.New(policy)
	b := newBench(t, small, bert.Pretraining, 5)
	outputs := func(batch *bert.Batch) []float32 {
		p := &bert.Pass{Seed: 5, Step: 2}
		if _, err := b.network.Forward(d, p, batch, nil); err != nil {
			t.Fatal(err)
		}
		_, hidden, _ := b.network.Output("sequence_output")
		_, logits, _ := b.network.Output("mlm_logits")
		return slices.Concat(hidden, logits)
	}
	hidden, logits := 20*small.HiddenSize, 3*small.VocabSize
	whole := outputs(b.batch)
	part := outputs(b.batch.Slice(2, 4))
	if !slices.Equal(part[:2*hidden], whole[2*hidden:4*hidden]) {
		t.Error("hidden states of samples 2 and 3 depend on the micro-batch")
	}
	if !slices.Equal(part[2*hidden:], whole[5*hidden+2*logits:5*hidden+4*logits]) {
		t.Error("logits of samples 2 and 3 depend on the micro-batch")
	}
}

// TestStores: with FP16 in every store, outputs and gradients hold only values of FP16, so no sum misses its store.
func TestStores(t *testing.T) {
	for _, stochastic := range []bool{false, true} {
		d := emulator.New(half(stochastic))
		for _, task := range bert.Tasks() {
			b := newBench(t, small, task, 4)
			b.objective.Scale = 1024
			for i, v := range b.params {
				b.params[i] = numerics.FP16.Round(v)
			}
			b.run(t, d, b.batch)
			for _, tensor := range b.model.Layout.Tensors() {
				for _, g := range tensor.Of(b.grads) {
					if g != numerics.FP16.Round(g) {
						t.Fatalf("%s: gradient of %s has %g, which FP16 lacks", task, tensor.Name, g)
					}
				}
			}
			if _, err := b.network.Forward(d, &bert.Pass{Seed: 5}, b.batch, nil); err != nil {
				t.Fatal(err)
			}
			for _, name := range bert.OutputNames(b.model.Config, b.model.Head) {
				_, values, ok := b.network.Output(name)
				if !ok {
					t.Fatalf("%s has no output %s", task, name)
				}
				for _, v := range values {
					if v != numerics.FP16.Round(v) {
						t.Fatalf("%s: output %s has %g, which FP16 lacks", task, name, v)
					}
				}
			}
		}
	}
}

// TestPolicyReachesEveryOperator: each store of the policy changes some bit of the gradients or the outputs.
func TestPolicyReachesEveryOperator(t *testing.T) {
	s := emulator.Store{Format: numerics.BF16}
	for name, policy := range map[string]emulator.Policy{
		"inputs":             {Inputs: numerics.BF16},
		"partials":           {Partials: emulator.Partials{Chunk: 8, Store: s}},
		"embed out":          {Embed: emulator.Row{Out: s}},
		"embed grad":         {Embed: emulator.Row{Grad: s}},
		"embed weight":       {Embed: emulator.Row{Weight: s}},
		"linear out":         {Linear: emulator.Row{Out: s}},
		"linear grad":        {Linear: emulator.Row{Grad: s}},
		"linear weight":      {Linear: emulator.Row{Weight: s}},
		"pointwise out":      {Pointwise: emulator.Row{Out: s}},
		"pointwise grad":     {Pointwise: emulator.Row{Grad: s}},
		"residual out":       {Residual: emulator.Row{Out: s}},
		"residual grad":      {Residual: emulator.Row{Grad: s}},
		"norm out":           {Norm: emulator.Row{Out: s}},
		"norm grad":          {Norm: emulator.Row{Grad: s}},
		"norm weight":        {Norm: emulator.Row{Weight: s}},
		"statistics":         {Statistics: s},
		"scores out":         {Scores: emulator.Row{Out: s}},
		"scores grad":        {Scores: emulator.Row{Grad: s}},
		"exponential":        {Exponential: s},
		"masked":             {Masked: s, Exponential: emulator.Store{Format: numerics.TF32}},
		"reciprocal":         {Reciprocal: s, Exponential: emulator.Store{Format: numerics.TF32}},
		"probabilities out":  {Probabilities: emulator.Row{Out: s}},
		"probabilities grad": {Probabilities: emulator.Row{Grad: s}},
		"loss grad":          {LossGrad: s},
	} {
		if err := policy.Validate(); err != nil {
			t.Fatal(err)
		}
		b := newBench(t, small, bert.Pretraining, 4)
		b.run(t, emulator.New(emulator.Policy{}), b.batch)
		want := slices.Clone(b.grads)
		b.run(t, emulator.New(policy), b.batch)
		if e := relative(b.grads, want); e == 0 || e > 0.2 {
			t.Errorf("%s in BF16 changes the gradient by %.3g, want more than 0 and at most 0.2", name, e)
		}
	}
}

// TestOverflow: values beyond FP16 are clipped and counted, or become NaN.
func TestOverflow(t *testing.T) {
	for overflow, finite := range map[numerics.Overflow]bool{numerics.Clip: true, numerics.NaN: false, numerics.Inf: false} {
		policy := half(false)
		policy.Overflow = overflow
		d := emulator.New(policy)
		b := newBench(t, small, bert.Pretraining, 4)
		b.objective.Scale = 1 << 24
		b.run(t, d, b.batch)
		got := true
		for _, g := range b.grads {
			got = got && !math.IsNaN(float64(g)) && !math.IsInf(float64(g), 0)
		}
		if got != finite {
			t.Errorf("overflow %d: gradients are finite: %v, want %v", overflow, got, finite)
		}
		if n := d.TakeOverflows(); (n > 0) != (overflow != numerics.Inf) {
			t.Errorf("overflow %d: %d values counted", overflow, n)
		}
		if d.TakeOverflows() != 0 {
			t.Error("the count is not taken")
		}
	}
}
