package optimizer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"harness.invalid/core/tensor"
)

// Coster is an Optimizer that states what its updates cost, so that a model of a machine can price them without knowing the
// rule.
type Coster interface {
	Optimizer
	// Cost returns the cost of one step over the parameters of a layout. ErrNoCost: the rule states none.
	Cost(ctx context.Context, options map[string]string, l *tensor.Layout) (Cost, error)
}

// ErrNoCost is the error of a rule that does not state what its updates cost.
var ErrNoCost = errors.New("the optimizer states no cost")

// Cost is what a rule keeps for the tensors of a layout and does with them in one step, on any machine.
type Cost struct {
	Slots   []Slot       // in the order of Optimizer.Slots
	Tensors []TensorCost // one for each tensor of the layout, in its order
	// Probes is Info.Probes: a step takes two gradients, and the parameters are saved during the second one.
	Probes bool
	// Fused: every program in use updates all tensors with a few kernels. Other rules are fused only where FP32 masters
	// are kept beside narrower weights; elsewhere each operation on each tensor is a kernel, like PyTorch's operators.
	Fused bool
	// Assumed says in words what was assumed because the rule does not state it; empty: nothing.
	Assumed string
}

// Slot is a kind of state and the format in which a machine would store it. In Memory every slot is float32.
type Slot struct {
	Name   string
	Format string // of an element: fp32, fp16, bf16, int8 ...
	Bits   int    // of an element
}

// FP32Slots returns slots in float32.
func FP32Slots(names ...string) []Slot {
	slots := make([]Slot, len(names))
	for i, name := range names {
		slots[i] = Slot{name, "fp32", 32}
	}
	return slots
}

// TensorCost is what a rule keeps and does for one tensor in a step. Every element of its state is read and written once.
type TensorCost struct {
	State    []int64   // elements in each slot; nil: as many as the tensor has, in every slot
	Flops    float64   // on single elements, without products; a root or a division counts as one
	Products []Product // of matrices
	// Params and Grads are how often each parameter and each element of the gradient is read or written.
	Params, Grads float64
	// Scratch is the number of float32 elements of intermediate results that are read or written.
	Scratch float64
	// Kernels are those that run on this tensor alone, without products; a kernel that does not run in every step counts
	// as a fraction. 0: the tensor is updated together with others, as fused optimizers do.
	Kernels float64
}

// Product is a number of groups of matrix products C[m, n] = A[m, k]·B[k, n] in float32, computed together. It runs Count
// times per step, which may be a fraction.
type Product struct {
	Count           float64
	Groups, M, K, N int
}

// Flops returns the operations of a product in one step; a multiply-add counts as two.
func (p Product) Flops() float64 {
	return 2 * p.Count * float64(p.Groups) * float64(p.M) * float64(p.K) * float64(p.N)
}

// Clipped adds the cost of clipping by the norm of all gradients: they are read once more, squared, summed, and later scaled.
func (w TensorCost) Clipped(t tensor.Tensor, limit float64) TensorCost {
	if limit > 0 {
		w.Grads++
		w.Flops += 3 * float64(t.Len())
	}
	return w
}

// CostOver returns the cost of a rule over a layout; of returns the cost for one tensor.
func CostOver(l *tensor.Layout, slots []Slot, of func(t tensor.Tensor) TensorCost) Cost {
	c := Cost{Slots: slots}
	for _, t := range l.Tensors() {
		c.Tensors = append(c.Tensors, of(t))
	}
	return c
}

// CostOf asks a rule for its cost. A rule that states none is priced by its slots, which Cost.Assumed records.
func CostOf(ctx context.Context, o Optimizer, options map[string]string, l *tensor.Layout) (Cost, error) {
	names, err := o.Slots(ctx, options)
	if err != nil {
		return Cost{}, err
	}
	info, err := o.Describe(ctx)
	if err != nil {
		return Cost{}, err
	}
	c, err := Cost{}, ErrNoCost
	if s, ok := o.(Coster); ok {
		c, err = s.Cost(ctx, options, l)
	}
	if errors.Is(err, ErrNoCost) {
		c, err = costOfSlots(info, names, l), nil
	}
	if err != nil {
		return Cost{}, err
	}
	if err := c.Check(l); err != nil {
		return Cost{}, fmt.Errorf("optimizer %s: %w", info.Name, err)
	}
	return c, nil
}

// flopsPerSlot is the arithmetic assumed for each slot of a rule that states none: that of Adam's second moment and its use.
const flopsPerSlot = 7

func costOfSlots(info Info, names []string, l *tensor.Layout) Cost {
	c := CostOver(l, FP32Slots(names...), func(t tensor.Tensor) TensorCost {
		return TensorCost{Flops: float64(t.Len()) * float64(2+flopsPerSlot*len(names)), Params: 2, Grads: 1}
	})
	c.Probes = info.Probes
	c.Assumed = fmt.Sprintf("optimizer %s does not state its cost: priced by its slots, %d in FP32, %d operations per element each",
		info.Name, len(names), flopsPerSlot)
	return c
}

// Check reports a cost that is impossible for a layout.
func (c Cost) Check(l *tensor.Layout) error {
	if len(c.Tensors) != len(l.Tensors()) {
		return fmt.Errorf("it states the cost of %d tensors, want %d as the layout has", len(c.Tensors), len(l.Tensors()))
	}
	for _, s := range c.Slots {
		if s.Name == "" || s.Format == "" || s.Bits < 1 || s.Bits > 64 {
			return fmt.Errorf("it states slot %q in format %q with %d bits, want a name, a format and 1 to 64 bits",
				s.Name, s.Format, s.Bits)
		}
	}
	for i, t := range l.Tensors() {
		if err := c.Tensors[i].check(t, len(c.Slots)); err != nil {
			return fmt.Errorf("its cost of %s: %w", t.Name, err)
		}
	}
	return nil
}

func (w *TensorCost) check(t tensor.Tensor, slots int) error {
	if w.State != nil && len(w.State) != slots {
		return fmt.Errorf("state in %d slots, want %d", len(w.State), slots)
	}
	for _, n := range w.State {
		if n < 0 || n > int64(t.Len()) {
			return fmt.Errorf("%d elements of state in a slot, want at most the tensor's %d", n, t.Len())
		}
	}
	for _, v := range []float64{w.Flops, w.Params, w.Grads, w.Scratch, w.Kernels} {
		if !(v >= 0 && v <= math.MaxFloat64) {
			return fmt.Errorf("%g where a finite number of at least 0 is wanted", v)
		}
	}
	for _, p := range w.Products {
		if !(p.Count > 0 && p.Count <= math.MaxFloat64) || min(p.Groups, p.M, p.K, p.N) < 1 {
			return fmt.Errorf("%g times %d products of %d x %d x %d, want positive numbers", p.Count, p.Groups, p.M, p.K, p.N)
		}
	}
	return nil
}

// StateBytes returns the size of all slots of tensor i, which has n elements.
func (c Cost) StateBytes(i, n int) float64 {
	bits := 0.
	for k, s := range c.Slots {
		kept := int64(n)
		if state := c.Tensors[i].State; state != nil {
			kept = state[k]
		}
		bits += float64(kept) * float64(s.Bits)
	}
	return bits / 8
}

// MovedBytes returns the bytes that an update of tensor i, which has n elements, reads and writes outside of products. param
// and grad are the bytes of an element of parameters and gradients. A rule that probes also saves and restores parameters.
func (c Cost) MovedBytes(i, n int, param, grad float64) float64 {
	w := &c.Tensors[i]
	params := w.Params
	if c.Probes {
		params += 4
	}
	return float64(n)*(params*param+w.Grads*grad) + 2*c.StateBytes(i, n) + 4*w.Scratch
}
