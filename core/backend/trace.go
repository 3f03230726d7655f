package backend

import (
	"context"
	"iter"

	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// Tracer is a Session that can show what its operators store. It is optional, and a host asks for it with a type assertion; ErrUnsupported says that the
// session of another process can't, after all.
type Tracer interface {
	// Trace is Step with the same results, bit for bit. On the way it yields, for the first micro-batch, the result of each operator and the gradient of
	// that result, in any order. What a device can't show it leaves out. The values of what is yielded last until yield returns.
	Trace(ctx context.Context, s Step, batches iter.Seq2[*bert.Batch, error], yield func(Traced) error) (StepResult, error)
}

// Traced is the result of an operator as the device stored it, or the gradient of that result.
type Traced struct {
	Operator string // a name of bert.Operators
	// Gradient says that these are gradients, of Scale times the mean loss of the global batch: a device may scale its loss.
	Gradient bool
	Scale    float64      // 1 where these are no gradients
	Format   string       // in which the device stores them: a name of numerics.Format; "" where it does not say
	Shape    tensor.Shape // bert.Operator.Shape of the micro-batch
	// Values of rows that bert.Operator.Read leaves out are 0 in a gradient, and anything in a result: a device need not compute them.
	Values []float32
}
