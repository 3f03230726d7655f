package optimizers_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/tensor"
	"harness.invalid/plugins/optimizers/adafactor"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/lion"
	"harness.invalid/plugins/optimizers/muon"
	"harness.invalid/plugins/optimizers/nadamw"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/schedulefree"
	"harness.invalid/plugins/optimizers/sgd"
	"harness.invalid/plugins/optimizers/shampoo"
)

// base are the parameters of BERT-Base with the heads of pre-training.
func base(t *testing.T) *tensor.Layout {
	t.Helper()
	l, err := bert.Parameters(bert.Defaults(), bert.Head{Task: bert.Pretraining})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func costOf(t *testing.T, o optimizer.Optimizer, options map[string]string, l *tensor.Layout) optimizer.Cost {
	t.Helper()
	c, err := optimizer.CostOf(t.Context(), o, options, l)
	if err != nil {
		t.Fatal(err)
	}
	if c.Assumed != "" {
		t.Fatalf("a built-in rule states no cost: %s", c.Assumed)
	}
	return c
}

// total adds up bytes of state, bytes moved with FP32 parameters and gradients, operations on elements and in
// products, for each parameter.
func total(c optimizer.Cost, l *tensor.Layout) (state, moved, flops, products float64) {
	for i, t := range l.Tensors() {
		state += c.StateBytes(i, t.Len())
		moved += c.MovedBytes(i, t.Len(), 4, 4)
		flops += c.Tensors[i].Flops
		for _, p := range c.Tensors[i].Products {
			products += p.Flops()
		}
	}
	n := float64(l.Parameters())
	return state / n, moved / n, flops / n, products / n
}

// TestCost: bytes and operations of a parameter of BERT-Base, counted from the formulas in the packages' comments.
func TestCost(t *testing.T) {
	l := base(t)
	for _, c := range []struct {
		rule         optimizer.Optimizer
		options      map[string]string
		state, moved float64
		flops        float64 // but for tensors without decay, which are less than a hundredth
	}{
		// p read and written, g read, m and v read and written: 7 numbers of 4 bytes.
		{adamw.New(), nil, 8, 28, 16},
		{adamw.New(), map[string]string{"first_moment": "fp16"}, 6, 24, 19},
		{adamw.New(), map[string]string{"bias_correction": "false", "max_grad_norm": "1"}, 8, 32, 17},
		{adamw.New(), map[string]string{"clip_by": "tensor", "max_grad_norm": "1"}, 8, 30 * 4, 19},
		{lamb.New(), nil, 8, (4 + 5 + 4) * 4, 23},
		{lamb.New(), map[string]string{"first_moment": "fp16", "max_grad_norm": "0"}, 6, (4+4)*4 + 12, 23},
		{sgd.New(), nil, 0, 12, 2},
		{sgd.New(), map[string]string{"momentum": "0.9", "nesterov": "true"}, 4, 20, 7},
		{lion.New(), nil, 4, 20, 11},
		{nadamw.New(), nil, 8, 28, 18},
		// AdamW's 7, 2 and 2 for the probe, 4 to set the parameters aside and back.
		{sam.New(), nil, 8, (7 + 4 + 4) * 4, 20},
		{schedulefree.New(), nil, 8, 28, 21},
	} {
		name := fmt.Sprintf("%T %v", c.rule, c.options)
		if info, err := c.rule.Describe(t.Context()); err == nil {
			name = info.Name + fmt.Sprint(c.options)
		}
		state, moved, flops, products := total(costOf(t, c.rule, c.options, l), l)
		if math.Abs(state-c.state) > 1e-6 || math.Abs(moved-c.moved) > 1e-6 || math.Abs(flops-c.flops) > 0.01*c.flops || products != 0 {
			t.Errorf("%s: %.4f bytes of state, %.4f moved, %.3f operations, %g in products, want %g, %g, %g and 0",
				name, state, moved, flops, products, c.state, c.moved, c.flops)
		}
	}
}

// TestMatrixCost: rules for matrices cost by shape. Adafactor keeps rows and columns; Muon's five steps of a square
// matrix of n rows are 3 products of n³ multiply-adds each; Shampoo's statistics of a square block are as large as
// the block, four times.
func TestMatrixCost(t *testing.T) {
	l := base(t)
	if state, _, _, _ := total(costOf(t, adafactor.New(), nil, l), l); state > 0.1 {
		t.Errorf("Adafactor keeps %g bytes for a parameter, want less than 0.1", state)
	}
	if state, _, _, _ := total(costOf(t, adafactor.New(), map[string]string{"beta1": "0.9"}, l), l); state < 4 || state > 4.1 {
		t.Errorf("Adafactor with a first moment keeps %g bytes for a parameter, want 4", state)
	}
	square := func(n int) *tensor.Layout {
		l, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{n, n}, Kind: tensor.Weight})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const n = 256
	state, _, _, products := total(costOf(t, muon.New(), nil, square(n)), square(n))
	if state != 4 || products != 5*3*2*n {
		t.Errorf("Muon: %g bytes and %g operations in products for a parameter, want 4 and %d", state, products, 5*3*2*n)
	}
	options := map[string]string{"block_size": "64", "precondition_every": "10"}
	state, _, _, products = total(costOf(t, shampoo.New(), options, square(n)), square(n))
	// Two sides with a product for the statistics, one for the update, and a tenth of one for the root.
	if want := 2 * 2.1 * 2 * 64; state != 6*4 || math.Abs(products-want) > 1e-9 {
		t.Errorf("Shampoo: %g bytes and %g operations in products for a parameter, want 24 and %g", state, products, want)
	}
}

// unstated is a rule that says nothing of its cost.
type unstated struct{ optimizer.Optimizer }

// TestCostBySlots: what states no cost is priced by its slots and marked; a cost that can't be is refused.
func TestCostBySlots(t *testing.T) {
	l := base(t)
	c, err := optimizer.CostOf(t.Context(), unstated{adamw.New()}, nil, l)
	if err != nil || c.Assumed == "" {
		t.Fatalf("%v, assumed %q", err, c.Assumed)
	}
	if state, moved, flops, _ := total(c, l); state != 8 || moved != 28 || flops != 16 {
		t.Errorf("%g bytes of state, %g moved, %g operations, want 8, 28 and 16", state, moved, flops)
	}
	if c, err = optimizer.CostOf(t.Context(), unstated{sam.New()}, nil, l); err != nil || !c.Probes {
		t.Errorf("a rule that probes: %v, probes %t", err, c.Probes)
	}
	if _, err := optimizer.CostOf(t.Context(), wrong{adamw.New()}, nil, l); err == nil {
		t.Error("more state than a tensor has elements was taken")
	}
	if _, err := optimizer.CostOf(t.Context(), adamw.New(), map[string]string{"beta1": "2"}, l); err == nil {
		t.Error("a bad option was taken")
	}
}

// wrong states more state than there can be.
type wrong struct{ optimizer.Optimizer }

func (wrong) Cost(_ context.Context, _ map[string]string, l *tensor.Layout) (optimizer.Cost, error) {
	return optimizer.CostOver(l, optimizer.FP32Slots("m"), func(t tensor.Tensor) optimizer.TensorCost {
		return optimizer.TensorCost{State: []int64{int64(t.Len()) + 1}}
	}), nil
}

// withOptions is a rule with options that nobody needs to give.
type withOptions struct {
	optimizer.Coster
	options map[string]string
}

func (o withOptions) Slots(ctx context.Context, _ map[string]string) ([]string, error) {
	return o.Coster.Slots(ctx, o.options)
}

func (o withOptions) Cost(ctx context.Context, _ map[string]string, l *tensor.Layout) (optimizer.Cost, error) {
	return o.Coster.Cost(ctx, o.options, l)
}

func (o withOptions) Open(ctx context.Context, _ map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	return o.Coster.Open(ctx, o.options, m)
}

// TestNarrowMoment: an FP16 first moment has the bits that its cost states.
func TestNarrowMoment(t *testing.T) {
	for _, rule := range []optimizer.Optimizer{adamw.New(), lamb.New()} {
		narrow := withOptions{rule.(optimizer.Coster), map[string]string{"first_moment": "fp16"}}
		for _, r := range optimizertest.Conformance(t.Context(), narrow) {
			if r.Name == "keeps the state that its cost states" && r.Err != nil {
				t.Error(r.Err)
			}
		}
	}
}
