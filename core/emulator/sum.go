package emulator

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
)

// stretch is the number of elements of a flat buffer that a worker takes at a time: 64 KiB, and a multiple of
// random.Group.
const stretch = 16 << 10

// flat calls body for every stretch of n elements, in parallel.
func flat(n int, body func(i0, i1 int)) {
	kernels.Parallel((n+stretch-1)/stretch, func(s0, s1 int) {
		for s := s0; s < s1; s++ {
			body(s*stretch, min(n, (s+1)*stretch))
		}
	})
}

// accumulate adds the gradient of a replica's micro-batch k (0, 1, ...) to the replica's sum, which micro-batch 0
// sets. Both slices are the part of a section from element begin on.
func (d *Device) accumulate(p *bert.Pass, sum, grad []float32, begin, k int) {
	out := d.weights(p, d.policy.Accumulate, bert.Site{Layer: -1, Op: bert.OpAccumulate}, drawOut, len(sum))
	old, fresh := float32(1), float32(1)
	if d.policy.RunningMean {
		old, fresh = float32(k)/float32(k+1), 1/float32(k+1)
	}
	flat(len(sum), func(i0, i1 int) {
		s := sum[i0:i1]
		switch {
		case k == 0:
			copy(s, grad[i0:i1])
		case d.policy.RunningMean:
			kernels.Scale(s, old, s)
			kernels.Axpy(s, fresh, grad[i0:i1])
		default:
			kernels.Add(s, s, grad[i0:i1])
		}
		d.put(&out, s, 0, begin+i0)
	})
}

// scale multiplies in FP32, unless the factor is 1, and reports whether all values are finite.
func scale(x []float32, factor float32) bool {
	stretches := (len(x) + stretch - 1) / stretch
	finite := make([]bool, stretches)
	flat(len(x), func(i0, i1 int) {
		if factor != 1 {
			kernels.Scale(x[i0:i1], factor, x[i0:i1])
		}
		finite[i0/stretch] = kernels.AllFinite(x[i0:i1])
	})
	for _, f := range finite {
		if !f {
			return false
		}
	}
	return true
}

// storeParameters rounds parameters to the policy's format; values of the format stay as they are. All replicas
// draw the same random bits, so their parameters stay equal.
func (d *Device) storeParameters(p *bert.Pass, params []float32) {
	d.storeSection(p, d.policy.Parameters, drawOut, params)
}

// storeWorking rounds the copy of the parameters that the device computes with.
func (d *Device) storeWorking(p *bert.Pass, params []float32) {
	d.storeSection(p, d.policy.Working, drawWeight, params)
}

func (d *Device) storeSection(p *bert.Pass, s Store, draw uint32, params []float32) {
	update := *p
	update.Sample, update.Replica = 0, 0
	out := d.weights(&update, s, bert.Site{Layer: -1, Op: bert.OpUpdate}, draw, len(params))
	flat(len(params), func(i0, i1 int) { d.put(&out, params[i0:i1], 0, i0) })
}
