package bench

import (
	"context"
	"sync"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Rules starts optimizers, and gives them memory to work on.
type Rules interface {
	Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error)
	Allocate(l *tensor.Layout, slots int) (optimizer.Memory, error)
}

// Optimizer is a benchmark of an optimizer plugin's update of a model's parameters in shared memory, relative to
// the bandwidth of the memory. The bytes are those of any rule that passes once over each array: it reads p, g and the
// slots, and writes p and the slots. What a rule moves beyond that makes its share smaller. The norm of the gradients
// costs nothing here, since the host computes it when it scans them.
func Optimizer(ctx context.Context, p Rules, name, size string) Benchmark {
	return Benchmark{"Optimizer/" + name + "/model=" + size, func(b *testing.B) (f Figure, err error) {
		c, err := bert.Defaults().Size(size)
		if err != nil {
			return Figure{}, err
		}
		l, err := bert.Parameters(c, bert.Head{Task: bert.Pretraining})
		if err != nil {
			return Figure{}, err
		}
		o, err := p.Optimizer(ctx, name)
		if err != nil {
			return Figure{}, err
		}
		slots, err := o.Slots(ctx, nil)
		if err != nil {
			return Figure{}, err
		}
		m, err := p.Allocate(l, len(slots))
		if err != nil {
			return Figure{}, err
		}
		bert.Initialize(c, l, m.Params, 1)
		copy(m.Grads, m.Params)
		norm := optimizer.Norm(optimizer.Blocks(l), m.Grads)
		session, err := o.Open(ctx, nil, m)
		if err != nil {
			return Figure{}, err
		}
		defer func() {
			if e := session.Close(); err == nil {
				err = e
			}
		}()
		big := streamed()
		step := 0
		s := samples{elsewhere: true}
		s.pair(b, func() {
			step++
			if _, e := session.Step(ctx, optimizer.Step{Step: step, LR: 1e-4, GradientNorm: norm}); e != nil {
				err = e
			}
		}, func() { stream(big) })
		f = s.figure()
		bytes := 4 * float64(l.Len()) * float64(3+2*len(slots))
		f.GBs, f.PeakGBs = f.against(&s, bytes, 8*float64(len(big)))
		return f, err
	}}
}

// streamed is an array larger than any cache, one for all benchmarks.
var streamed = sync.OnceValue(func() []float32 { return make([]float32, 64<<20) })
