package backend

import (
	"context"
	"iter"

	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// Tracer is a Session that can show what its operators store. It is optional, and a host asks for it with a type
// assertion; a session in another process may still answer ErrUnsupported.
type Tracer interface {
	// Trace is Step with the same results, bit for bit. On the way it yields the result of each operator for the first
	// micro-batch, and the gradient of that result, in any order, leaving out what the device can't show. The values
	// that it yields last until yield returns.
	Trace(ctx context.Context, s Step, batches iter.Seq2[*bert.Batch, error], yield func(Traced) error) (StepResult, error)
}

// Traced is the result of an operator as the device stored it, or the gradient of that result.
type Traced struct {
	Operator string // a name of bert.Operators
	// Gradient says that these are gradients: of Scale times the mean loss of the global batch, as a device may scale
	// its loss.
	Gradient bool
	Scale    float64      // 1 for a result
	Format   string       // in which the device stores them: the name of a numerics.Format, "" if unknown
	Shape    tensor.Shape // bert.Operator.Shape of the micro-batch
	// Values has a row for every token. Rows on which the loss does not depend (bert.Operator.Relevant) are 0 in a
	// gradient and may hold anything in a result: a device need not compute them.
	Values []float32
}
