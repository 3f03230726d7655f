// Package emulator runs the operators of core/bert on the CPU in the number formats of another device.
//
// A Policy, a Plan and batches go in; losses, outputs and gradients come out. Device implements bert.Device over
// core/kernels: it computes in float32 and rounds what operators store as its Policy says, in the epilogues of
// matrix products and while rows are in cache, so that emulation costs little more than FP32. Trainer is what the
// sessions of all emulated devices share: it takes micro-batches through a pipeline of devices, as the Plan places
// the model on them, and reduces the gradients of replicas along a ring.
//
// Rounding draws random bits from counters keyed by (seed, step, sample, site, element), so an activation is
// rounded the same way whichever micro-batch, worker or replica computes its sample, and whatever padding is left
// out. Partial sums inside matrix products and gradients of weights belong to a micro-batch and are keyed by its
// first sample, partial sums also by their row in the product.
package emulator

import (
	"fmt"

	"harness.invalid/core/numerics"
)

// Store is the format in which a result is stored and how it is rounded to it: to nearest, ties to even, or
// stochastically. The zero value keeps FP32.
type Store struct {
	Format     numerics.Format
	Stochastic bool
}

// Row says how an operator stores what it computes: its result, the gradients of its inputs, and the gradients of
// its parameters.
type Row struct {
	Out    Store `yaml:"result"`
	Grad   Store `yaml:"input_gradient"`
	Weight Store `yaml:"parameter_gradient"`
}

// Policy is the number formats of an emulated device, as a table with a row for each kind of operator. Between the
// stores named here everything is computed in float32. The zero Policy is FP32 throughout and costs nothing.
type Policy struct {
	// Inputs is the format to which both factors of every matrix product are rounded, to nearest, when they are read,
	// unless they were already stored in it.
	Inputs numerics.Format
	// Partials says how matrix products store partial sums, after every Chunk products; with Chunk 0 they do not.
	Partials Partials
	// Products narrow the operands of the products of linear operators further.
	Products Products

	Embed      Row   // word + position + type; Weight: their tables' gradients
	Linear     Row   // X·Wᵀ + B; dX; dW and dB. Context = P·V is stored like Out, and dP, dQ, dK and dV like Grad
	Pointwise  Row   // GELU, tanh, and dropout of hidden states; the same in the backward pass
	Residual   Row   // residual + x; Grad: the gradient where branches of the backward pass meet
	Norm       Row   // normalised rows; dX; dγ and dβ
	Statistics Store // mean and 1/σ as the norm keeps them; they are computed in FP32

	Scores        Row   // Q·Kᵀ, once more when it is scaled; Grad: the gradient of Q·Kᵀ
	Masked        Store // scaled scores + mask, less the row's maximum
	Exponential   Store // e^x of the softmax, whose sum is FP32 or wider
	Reciprocal    Store // 1/sum, that multiplies the exponentials
	Probabilities Row   // the softmax, once more when dropped out; Grad: dP after dropout

	LossGrad Store // the gradient of the logits; losses are FP32

	// Serialize cuts the decoder's product into so many slices of the vocabulary; 0 and 1 leave it whole. The gradient
	// of the decoder's input is then a sum of as many products, stored as Linear.Grad after each addition.
	Serialize int
	// HistogramEdge is the magnitude above which the gradient of a parameter counts as large, see
	// Device.TakeHistogram; 0 counts none.
	HistogramEdge float32

	Accumulate  Store // a replica's sum of the gradients of its micro-batches, after each addition
	RunningMean bool  // the sum is kept as a mean: (k·sum + gradient)/(k + 1) after k micro-batches
	// Shares makes the loss of a micro-batch its share of the replica's mean loss even where Accumulate is narrow. By
	// default a narrow accumulator adds up means and divides at the end.
	Shares bool

	Reduce Store // the sum of the gradients of replicas, after each addition
	// ReduceFirst reduces the replicas' sums after every micro-batch, not only after the last.
	ReduceFirst bool
	// Divide makes replicas divide by their number before they reduce, as ReduceFirst does. Otherwise the mean is
	// taken in FP32 at the end.
	Divide bool
	// BucketBytes is the size at which a bucket of gradients is full. Buckets are filled from the last tensor to the
	// first, and each is reduced on its own; FirstBucketBytes is the size of the first. With 0 all gradients are one
	// buffer.
	BucketBytes, FirstBucketBytes int

	Parameters Store // parameters after an update
	// Working is the format of the working copy, where the device computes with a narrow copy of the parameters and
	// keeps these as masters.
	Working Store

	// RoundingSeed chooses among independent draws of all stochastic rounding of one seed; 0 is as good as any.
	RoundingSeed uint64

	// Overflow says what becomes of values too large for FP16. The Device counts them unless it is numerics.Inf.
	Overflow numerics.Overflow
}

// Partials says how partial sums of matrix products are stored.
type Partials struct {
	Chunk int   `yaml:"chunk"` // products between two stores, at most 256
	Store Store `yaml:"store"`
}

// stores returns all stores of the policy.
func (p *Policy) stores() []*Store {
	all := []*Store{&p.Partials.Store, &p.Statistics, &p.Masked, &p.Exponential, &p.Reciprocal, &p.LossGrad, &p.Accumulate,
		&p.Reduce, &p.Parameters, &p.Working}
	for _, r := range []*Row{&p.Embed, &p.Linear, &p.Pointwise, &p.Residual, &p.Norm, &p.Scores, &p.Probabilities} {
		all = append(all, &r.Out, &r.Grad, &r.Weight)
	}
	return all
}

// Validate reports a policy that no device can follow.
func (p *Policy) Validate() error {
	for _, s := range p.stores() {
		if err := (numerics.Rounding{Format: s.Format, Stochastic: s.Stochastic, Overflow: p.Overflow}).Validate(); err != nil {
			return err
		}
	}
	if p.Serialize < 0 || !(p.HistogramEdge >= 0) {
		return fmt.Errorf("emulator: a product cut into %d slices and a histogram with an edge at %g, want at least 0",
			p.Serialize, p.HistogramEdge)
	}
	if p.BucketBytes < 0 || p.FirstBucketBytes < 0 {
		return fmt.Errorf("emulator: buckets of %d bytes and a first one of %d, want at least 0", p.BucketBytes, p.FirstBucketBytes)
	}
	if p.Partials.Chunk < 0 || p.Partials.Chunk > 256 {
		return fmt.Errorf("emulator: partial sums of %d products, want 0 (none) to 256", p.Partials.Chunk)
	}
	return p.Products.validate()
}

// Nearest returns the policy with all rounding to nearest, for evaluation, where the smallest error counts and bias
// does not build up.
func (p Policy) Nearest() Policy {
	for _, s := range p.stores() {
		s.Stochastic = false
	}
	p.Products.nearest()
	return p
}

// read is the format to which a matrix product must round a factor that was stored in the format of s.
func (p *Policy) read(s Store) numerics.Format {
	if s.Format == p.Inputs {
		return numerics.FP32
	}
	return p.Inputs
}

// readHidden is the format to which a product must round its input, which comes from embeddings, a norm, an
// activation, a residual sum or attention.
func (p *Policy) readHidden() numerics.Format {
	for _, r := range []Row{p.Embed, p.Norm, p.Pointwise, p.Residual, p.Linear} {
		if p.read(r.Out) != numerics.FP32 {
			return p.Inputs
		}
	}
	return numerics.FP32
}

// readWeights is the format to which a product must round weights.
func (p *Policy) readWeights() numerics.Format {
	if p.Working.Format != numerics.FP32 {
		return p.read(p.Working)
	}
	return p.read(p.Parameters)
}

// product says how to store the result of a matrix product that nothing is added to: not at all where the last
// store of its partial sums has done it.
func (p *Policy) product(s Store) Store {
	if p.Partials.Chunk > 0 && s == p.Partials.Store {
		return Store{}
	}
	return s
}
