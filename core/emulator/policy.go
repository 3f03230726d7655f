// Package emulator runs the operators of core/bert on the CPU in the number formats of another device.
//
// Device implements bert.Device over core/kernels. It computes in float32 and rounds what an operator stores as a Policy says, in the
// epilogues of the matrix products and while rows are in cache, so emulation costs little more than FP32. Trainer and the ring
// reduction are what every emulated device's session needs around it: micro-batches in, gradients out.
//
// Rounding draws its random bits from counters keyed by (seed, step, sample, site, element): an activation is rounded alike whichever
// micro-batch, worker or replica computes its sample. Partial sums inside matrix products and weight gradients belong to a micro-batch and
// are keyed by its first sample.
package emulator

import (
	"fmt"

	"harness.invalid/core/numerics"
)

// Store is the format in which results are stored, and the rounding that takes them there: to nearest, ties to even, or stochastic. The zero
// value keeps FP32.
type Store struct {
	Format     numerics.Format
	Stochastic bool
}

// Row is how an operator stores its results: of the forward pass, of the backward pass (gradients of its inputs), and the gradients
// of its parameters.
type Row struct {
	Out, Grad, Weight Store
}

// Policy is the table of an emulated device: a row per operator. All operators compute in float32 between the stores named here. The zero
// Policy is FP32 throughout and costs nothing.
type Policy struct {
	// Inputs is the format to which both factors of every matrix product are rounded, to nearest, as they are read, unless they were
	// stored in it already.
	Inputs numerics.Format
	// Partials is how a matrix product stores its partial sums, after every Chunk products; Chunk 0 never does.
	Partials Partials

	Embed      Row   // word + position + type; Weight: their tables' gradients
	Linear     Row   // X·Wᵀ + B; dX; dW and dB. Context = P·V, dQ, dK and dV are stored like its Out and Grad
	Pointwise  Row   // GELU, tanh, and dropout of hidden states; the same in the backward pass
	Residual   Row   // residual + x; Grad: the gradient where branches of the backward pass meet
	Norm       Row   // normalised rows; dX; dγ and dβ
	Statistics Store // mean and 1/σ as the norm keeps them; they are computed in FP32

	Scores        Row   // Q·Kᵀ, once more when it is scaled; Grad: the gradient of Q·Kᵀ
	Masked        Store // scaled scores + mask, less the row's maximum
	Exponential   Store // e^x of the softmax, whose sum is FP32
	Reciprocal    Store // 1/sum, that multiplies the exponentials
	Probabilities Row   // the softmax, once more when dropped out; Grad: dContext·Vᵀ, and after dropout

	LossGrad Store // the gradient of the logits; losses are FP32

	// Overflow is what becomes of values too large for FP16; the Device counts them unless it is numerics.Inf.
	Overflow numerics.Overflow
}

// Partials is the store of partial sums of matrix products.
type Partials struct {
	Chunk int // products between two stores, at most 256
	Store Store
}

// Validate reports a policy that no device can follow.
func (p *Policy) Validate() error {
	for _, s := range []Store{p.Partials.Store, p.Embed.Out, p.Embed.Grad, p.Embed.Weight, p.Linear.Out, p.Linear.Grad, p.Linear.Weight,
		p.Pointwise.Out, p.Pointwise.Grad, p.Residual.Out, p.Residual.Grad, p.Norm.Out, p.Norm.Grad, p.Norm.Weight, p.Statistics,
		p.Scores.Out, p.Scores.Grad, p.Masked, p.Exponential, p.Reciprocal, p.Probabilities.Out, p.Probabilities.Grad, p.LossGrad} {
		if err := (numerics.Rounding{Format: s.Format, Stochastic: s.Stochastic, Overflow: p.Overflow}).Validate(); err != nil {
			return err
		}
	}
	if p.Partials.Chunk < 0 || p.Partials.Chunk > 256 {
		return fmt.Errorf("emulator: partial sums of %d products, want 0 (none) to 256", p.Partials.Chunk)
	}
	return nil
}

// read is the format to which a matrix product must round a factor that was stored in the format of s.
func (p *Policy) read(s Store) numerics.Format {
	if s.Format == p.Inputs {
		return numerics.FP32
	}
	return p.Inputs
}
