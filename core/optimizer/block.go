package optimizer

import (
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/tensor"
)

// Check reports memory that does not match its layout or the number of slots that the rule needs.
func (m Memory) Check(slots int) error {
	if m.Layout == nil {
		return fmt.Errorf("optimizer: memory has no layout")
	}
	n := m.Layout.Len()
	if len(m.Params) != n || len(m.Grads) != n {
		return fmt.Errorf("optimizer: params and grads have %d and %d elements, want %d as the layout has",
			len(m.Params), len(m.Grads), n)
	}
	if len(m.Slots) != slots {
		return fmt.Errorf("optimizer: memory has %d slots, want %d", len(m.Slots), slots)
	}
	for i, s := range m.Slots {
		if len(s) != n {
			return fmt.Errorf("optimizer: slot %d has %d elements, want %d as the layout has", i, len(s), n)
		}
	}
	return nil
}

// Check reports a step that is invalid for every rule.
func (s Step) Check() error {
	if s.Step < 1 {
		return fmt.Errorf("optimizer: step is %d, want at least 1", s.Step)
	}
	if !(s.LR >= 0 && s.LR <= math.MaxFloat32) {
		return fmt.Errorf("optimizer: learning rate is %g, want a finite number of at least 0", s.LR)
	}
	if !(s.GradientNorm >= 0 && s.GradientNorm <= math.MaxFloat64) {
		return fmt.Errorf("optimizer: gradient norm is %g, want a finite number of at least 0", s.GradientNorm)
	}
	return nil
}

// Block is a run of elements of one tensor, the unit of parallel work. Where blocks begin depends only on the layout, so
// sums over blocks, added in order, have the same bits on any number of CPUs.
type Block struct {
	Tensor     int // index in Layout.Tensors
	Begin, End int // elements of the section
}

// Of returns the block's part of a section.
func (b Block) Of(section []float32) []float32 { return section[b.Begin:b.End] }

// BlockLen is the maximum length of a block: the same block of four sections fits into a second-level cache of 1 MiB.
const BlockLen = 1 << 14

// Blocks cuts the tensors of a layout into blocks, in order and without the padding between tensors.
func Blocks(l *tensor.Layout) []Block {
	var blocks []Block
	for i, t := range l.Tensors() {
		end := t.Offset + t.Len()
		for begin := t.Offset; begin < end; begin += BlockLen {
			blocks = append(blocks, Block{i, begin, min(begin+BlockLen, end)})
		}
	}
	return blocks
}

// Decays reports whether weight decay applies to a kind of parameter: as in BERT, not to biases and layer normalisation
// (google-research/bert, optimization.py, exclude_from_weight_decay).
func Decays(k tensor.Kind) bool { return k == tensor.Weight || k == tensor.Embedding }

// Norm returns the L2 norm of a section over its blocks, summed in float64: of Memory.Grads, the global gradient norm.
func Norm(blocks []Block, section []float32) float64 {
	sums := make([]float64, len(blocks))
	kernels.Parallel(len(blocks), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			sums[i] = kernels.SumSquares(section[blocks[i].Begin:blocks[i].End])
		}
	})
	var sum float64
	for _, s := range sums {
		sum += s
	}
	return math.Sqrt(sum)
}

// ClipScale returns the factor that clips gradients of a norm to limit: 1 if the norm is within it or limit is 0. The
// division has no epsilon, as in apex's FusedLAMB and TensorFlow's clip_by_global_norm; torch.nn.utils.clip_grad_norm_ adds
// 1e-6 to the norm.
func ClipScale(norm, limit float64) float64 {
	if limit > 0 && norm > limit {
		return limit / norm
	}
	return 1
}
