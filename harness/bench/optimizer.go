package bench

import (
	"context"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/harness/train"
)

// traffic is how many bytes per parameter an update moves if every array passes through the processor once: it
// reads p, g and the slots, and writes p and the slots. LAMB also writes the update over g, and reads p and the
// update again in a second pass. The norm of the gradients costs nothing here, since the host computes it when it
// scans them.
var traffic = map[string]float64{"adamw": 28, "lamb": 40, "sgd": 12}

// Optimizer is a benchmark of an optimizer plugin's update of a model's parameters in shared memory, relative to
// the bandwidth of the memory.
func Optimizer(ctx context.Context, p train.Plugins, name, size string) Benchmark {
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
		big := make([]float32, 64<<20)
		step := 0
		s := samples{elsewhere: true}
		s.pair(b, func() {
			step++
			if _, e := session.Step(ctx, optimizer.Step{Step: step, LR: 1e-4, GradientNorm: norm}); e != nil {
				err = e
			}
		}, func() { stream(big) })
		f = s.figure()
		if bytes, ok := traffic[name]; ok {
			f.GBs, f.PeakGBs = f.against(&s, bytes*float64(l.Len()), 8*float64(len(big)))
		}
		return f, err
	}}
}
