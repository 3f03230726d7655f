package emulator_test

import (
	"math"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// TestDropout: of n = 160,000 values a share p = 0.1 is dropped, within 5 standard deviations (0.4%), those kept
// are scaled by 1/(1-p), and the backward pass drops the same ones.
func TestDropout(t *testing.T) {
	const size, rows, out, p = 5, 100, 320, 0.1
	ones := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = 1
		}
		return x
	}
	op := &bert.Linear{Site: bert.Site{Op: bert.OpOutput}, Rows: size * rows, In: 1, Out: out, X: make([]float32, size*rows),
		W: make([]float32, out), B: ones(out),
		Y: make([]float32, size*rows*out), DW: make([]float32, out), DB: make([]float32, out), Dropout: p,
		Residual: make([]float32, size*rows*out)}
	d := emulator.New(emulator.Policy{})
	pass := &bert.Pass{Seed: 1, Step: 1, Size: size, Train: true}
	d.Linear(pass, op)
	dropped := 0
	for i, y := range op.Y {
		switch {
		case y == 0:
			dropped++
		case math.Abs(float64(y)*(1-p)-1) > 1e-4:
			t.Fatalf("element %d is %g, want 0 or 1/0.9", i, y)
		}
	}
	share, sd := float64(dropped)/float64(len(op.Y)), math.Sqrt(p*(1-p)/float64(len(op.Y)))
	if math.Abs(share-p) > 5*sd {
		t.Errorf("a share of %.4f is dropped, want %.2f ± %.4f", share, p, 5*sd)
	}
	d.LinearBackward(pass, op, ones(len(op.Y)), nil, false)
	for j := range out {
		var sum float64
		for i := range size * rows {
			sum += float64(op.Y[i*out+j])
		}
		if math.Abs(sum-float64(op.DB[j])) > 1e-3 {
			t.Fatalf("column %d: forward keeps %g, backward %g", j, sum, op.DB[j])
		}
	}
	before := append([]float32(nil), op.Y...)
	pass.Step = 2
	d.Linear(pass, op)
	same := 0
	for i := range op.Y {
		if (op.Y[i] == 0) == (before[i] == 0) {
			same++
		}
	}
	if share := float64(same) / float64(len(op.Y)); share > 0.85 {
		t.Errorf("masks of two steps agree in a share of %.3f, want %.2f", share, p*p+(1-p)*(1-p))
	}
	pass.Train = false
	d.Linear(pass, op)
	for _, y := range op.Y {
		if y != 1 {
			t.Fatal("dropout outside of training")
		}
	}
}

// TestAttentionDropout: with V = 1 the context is the sum of the kept probabilities, whose mean stays 1; and the
// gradient with respect to V uses the same mask: Σ dV for dC = 1 is the sum of what was kept.
func TestAttentionDropout(t *testing.T) {
	const size, length, heads, width = 3, 40, 2, 8
	n := size * length * width
	fill := func(v float32) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = v
		}
		return x
	}
	mask := make([]int32, size*length)
	for i := range mask {
		mask[i] = 1
	}
	op := &bert.Attention{Site: bert.Site{Op: bert.OpAttention}, Size: size, Length: length, Heads: heads, Width: width,
		Q: make([]float32, n), K: make([]float32, n), V: fill(1), Mask: mask, MaskValue: -10000, Dropout: 0.25, Context: make([]float32, n)}
	d := emulator.New(emulator.Policy{})
	pass := &bert.Pass{Seed: 1, Step: 1, Size: size, Train: true}
	d.Attention(pass, op)
	var kept, gradient float64
	different := map[float32]bool{}
	for _, c := range op.Context {
		kept += float64(c)
		different[c] = true
	}
	// 9,600 probabilities of 1/40 each in every one of width/heads = 4 equal columns: the mean of the sums has sd 0.006.
	if mean := kept / float64(n); math.Abs(mean-1) > 0.03 {
		t.Errorf("mean of the kept probabilities is %.4f, want 1", mean)
	}
	if len(different) < 5 {
		t.Errorf("only %d different sums: rows, heads or samples share a mask", len(different))
	}
	dv := make([]float32, n)
	d.AttentionBackward(pass, op, fill(1), make([]float32, n), make([]float32, n), dv)
	for _, g := range dv {
		gradient += float64(g)
	}
	if math.Abs(gradient-kept) > 1e-3*kept {
		t.Errorf("backward keeps %g, forward %g", gradient, kept)
	}
}
