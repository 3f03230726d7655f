// Package schedulefree is schedule-free AdamW: Defazio, Yang, Mehta, Mishchenko, Khaled, Cutkosky, "The Road Less
// Scheduled", NeurIPS 2024 (arXiv:2405.15682), algorithm 1.
//
//	y  = (1-beta1)·z + beta1·x                  where gradients are taken: what the parameters are while training
//	g  = ∇L(y) · min(1, max_grad_norm / ‖g‖)    ‖g‖ over all parameters; only when max_grad_norm > 0
//	v  = beta2·v + (1-beta2)·g²
//	z  = z - lr · (g / (sqrt(v / (1-beta2^t)) + eps) + λ·y)
//	c  = lr² / Σ lr²                            over all steps up to this one
//	x  = (1-c)·x + c·z                          the model: what is evaluated and handed on
//
// At the first step x = z = y. λ is weight_decay, 0 for biases and layer normalisation. As in the authors' program, x
// is not stored but computed from y and z, so a device that rounds the parameters also rounds x. z, v and all that is
// stored are float32; x and y are computed from each other in float64.
//
// The average replaces a decreasing schedule: use a constant rate after the warm-up. Under any other schedule, the
// rates weight the average.
package schedulefree

import (
	"math"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

var info = optimizer.Info{
	Name: "schedule-free-adamw", Version: "1", Doc: "schedule-free AdamW (Defazio et al. 2024, arXiv:2405.15682)",
	Options: []option.Option{
		{Name: "beta1", Default: "0.9", Doc: "share of the average in the point where gradients are taken"},
		{Name: "beta2", Default: "0.999", Doc: "decay of the second moment"},
		{Name: "eps", Default: "1e-8", Doc: "added to the root of the second moment"},
		{Name: "weight_decay", Default: "0.01", Doc: "decoupled weight decay λ; not on biases and layer normalisation"},
		{Name: "max_grad_norm", Default: "0", Doc: "clip the global gradient norm to this, 0: no clipping"},
	},
	Averages: true,
}

// New returns the rule.
func New() optimizer.Optimizer { return optimizer.Rule{Info: info, Read: read} }

type rule struct {
	optimizer.Adam
	maxGradNorm float64
}

func read(v *option.Values) (optimizer.Update, error) {
	r := &rule{optimizer.ReadAdam(v), v.Float("max_grad_norm", 0, math.MaxFloat32)}
	// x is found by a division by beta1, which magnifies what y was rounded by.
	r.Beta1 = v.Float("beta1", 0.1, 1-1e-9)
	return r, nil
}

// The slots. The sum of the squared rates is one number, at the beginning of a slot of its own: the rest of that
// slot is never touched.
const (
	slotZ = iota
	slotV
	slotSum
)

// Slots implements optimizer.Update.
func (*rule) Slots() []string { return []string{"z", "v", "squared_rates"} }

// Step implements optimizer.Update.
func (r *rule) Step(w *optimizer.Work, step optimizer.Step) {
	sum := &w.Slots[slotSum][0]
	if step.Step == 1 {
		*sum = 0
	}
	*sum += float32(step.LR * step.LR)
	c := 0.0
	if *sum > 0 {
		c = min(1, step.LR*step.LR/float64(*sum))
	}
	scale, lr, eps := float32(optimizer.ClipScale(w.Norm, r.maxGradNorm)), float32(step.LR), float32(r.Eps)
	keep, take := float32(r.Beta2), float32(1-r.Beta2)
	correction := float32(1 / (1 - math.Pow(r.Beta2, float64(step.Step))))
	w.Each(func(b optimizer.Block) {
		decay := w.Decay(b, r.WeightDecay)
		p, g, z, v := b.Of(w.Params), b.Of(w.Grads), b.Of(w.Slots[slotZ]), b.Of(w.Slots[slotV])
		if step.Step == 1 {
			copy(z, p)
		}
		for i, y := range p {
			x := r.average(y, z[i])
			g := scale * g[i]
			v[i] = float32(keep*v[i]) + float32(float32(take*g)*g)
			root := float32(math.Sqrt(float64(correction * v[i])))
			z[i] -= float32(lr * (g/(root+eps) + float32(decay*y)))
			to := float64(z[i])
			x += float64(c * (to - x))
			p[i] = float32(x + float64((1-r.Beta1)*(to-x)))
		}
	})
}

// average finds x from y and z.
func (r *rule) average(y, z float32) float64 {
	return float64(z) + (float64(y)-float64(z))/r.Beta1
}

// Average puts x in the place of y.
func (r *rule) Average(w *optimizer.Work, _ int) {
	w.Each(func(b optimizer.Block) {
		p, z := b.Of(w.Params), b.Of(w.Slots[slotZ])
		for i := range p {
			p[i] = float32(r.average(p[i], z[i]))
		}
	})
}
