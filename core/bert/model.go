// Package bert is the model: BERT's encoder with the heads for pre-training and fine-tuning, forward and backward.
//
// A Config and a Head go in. Out come the model's operators (Operators, one table that everything else follows), its
// parameters (Parameters, with Hugging Face's names and shapes), and a Network: the operators bound to memory. A
// Network takes a Batch, runs the operators in order on a Device, and yields losses, outputs by name, and gradients
// of all parameters. It decides what is computed and from which buffers into which; the Device decides how, in which
// number formats and where. Package emulator is such a Device.
//
// In comments B is the number of sequences in a micro-batch, S the tokens of a sequence, H the hidden size, A the
// number of attention heads, I the intermediate size, V the vocabulary, P the masked positions, Q the packed
// sequences of a row and T the tokens that a pass computes.
package bert

import (
	"fmt"

	"harness.invalid/core/tensor"
)

// Model is a BERT with a head: its configuration and where its parameters lie in a flat buffer.
type Model struct {
	Config Config
	Head   Head
	Layout *tensor.Layout
}

// New returns the model of a configuration and a head.
func New(c Config, h Head) (*Model, error) {
	l, err := Parameters(c, h)
	if err != nil {
		return nil, err
	}
	return &Model{Config: c, Head: h, Layout: l}, nil
}

// Shape is the extents of a micro-batch.
type Shape struct {
	Size        int // sequences, B
	Length      int // tokens a sequence, S
	Predictions int // masked positions a sequence, P; Pretraining only
	Sequences   int // sequences in a packed row, Q; 0 and 1: rows are not packed
	readTokens  int // see readTokens
	tokens      int // rows of AllTokens, see tokens; 0: every token
	keys        int // those of them that are keys
}

// Objective is the loss whose gradient a pass computes: Scale times the mean loss of the global batch, of which the
// micro-batch is a part. Since the denominators are the global batch's, the gradients of its micro-batches add up
// to the gradient of the mean, however the batch is cut.
type Objective struct {
	Scale        float64 // loss scale, 1 for none
	Sequences    float64 // in the global batch, N
	MaskedWeight float64 // Σ masked_lm_weights over the global batch; Pretraining only
	LabelWeight  float64 // labelled tokens of the global batch; TokenClassification only
}

// perSequence is the factor of a loss that is a mean over sequences.
func (o *Objective) perSequence() float64 { return over(o.Scale, o.Sequences) }

// perMasked is the factor of a loss that is a mean over masked positions.
func (o *Objective) perMasked() float64 { return over(o.Scale, o.MaskedWeight) }

// perLabel is the factor of a loss that is a mean over labelled tokens.
func (o *Objective) perLabel() float64 { return over(o.Scale, o.LabelWeight) }

// over is x/y, and 0 over nothing.
func over(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// binder finds the parameters of a model in two sections, values and gradients.
type binder struct {
	layout        *tensor.Layout
	params, grads []float32
}

// of returns the values and the gradient of a tensor; the gradient is nil in a network that only predicts.
func (b *binder) of(name string) (value, grad []float32) {
	t, ok := b.layout.Lookup(name)
	if !ok {
		panic("bert: the layout is not the model's")
	}
	if b.grads != nil {
		grad = t.Of(b.grads)
	}
	return t.Of(b.params), grad
}

// checkSections reports sections of another length than the layout's. grads may be nil.
func (m *Model) checkSections(params, grads []float32) error {
	if len(params) != m.Layout.Len() {
		return fmt.Errorf("bert: parameters have %d elements, want %d", len(params), m.Layout.Len())
	}
	if grads != nil && len(grads) != m.Layout.Len() {
		return fmt.Errorf("bert: gradients have %d elements, want %d", len(grads), m.Layout.Len())
	}
	return nil
}

// ClearPadding zeroes the elements between tensors, which no operator writes.
func (m *Model) ClearPadding(section []float32) {
	end := 0
	for _, t := range m.Layout.Tensors() {
		clear(section[end:t.Offset])
		end = t.Offset + t.Len()
	}
	clear(section[end:])
}
