package emulator

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
)

// stretch is the number of elements of a flat buffer that a worker takes at a time: 64 KiB, and a multiple of random.Group.
const stretch = 16 << 10

// flat calls body for every stretch of n elements, in parallel.
func flat(n int, body func(i0, i1 int)) {
	kernels.Parallel((n+stretch-1)/stretch, func(s0, s1 int) {
		for s := s0; s < s1; s++ {
			body(s*stretch, min(n, (s+1)*stretch))
		}
	})
}

// accumulate adds the gradient of micro-batch k (0, 1, ...) of a replica to its sum, which micro-batch 0 sets. Both are the part of a section that
// begins at an element.
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

// reduce sets sum to the sum of the replicas' gradients in the order of a ring: the buffer is cut into as many parts as there are replicas (at
// multiples of a stretch), and part c starts at replica c+1, takes up replicas c+2, c+3, ... (modulo their number), and is complete at replica c. So every element has
// one order of summation, whoever computes it. Source: the reduce-scatter of Baidu's ring all-reduce (2017), which GCL and NCCL follow.
func (d *Device) reduce(p *bert.Pass, sum []float32, replicas [][]float32) {
	n := len(replicas)
	part := ((len(sum)+n-1)/n + stretch - 1) / stretch * stretch
	flat(len(sum), func(i0, i1 int) {
		c, s := i0/part, sum[i0:i1]
		copy(s, replicas[(c+1)%n][i0:i1])
		for hop := 2; hop <= n; hop++ {
			r := (c + hop) % n
			kernels.Add(s, s, replicas[r][i0:i1])
			at := *p
			at.Sample = r
			out := d.weights(&at, d.policy.Reduce, bert.Site{Layer: -1, Op: bert.OpReduce}, drawOut, len(sum))
			d.put(&out, s, 0, i0)
		}
	})
}

// scale multiplies in FP32 and reports whether everything is finite.
func scale(x []float32, factor float32) bool {
	stretches := (len(x) + stretch - 1) / stretch
	finite := make([]bool, stretches)
	flat(len(x), func(i0, i1 int) {
		kernels.Scale(x[i0:i1], factor, x[i0:i1])
		finite[i0/stretch] = kernels.AllFinite(x[i0:i1])
	})
	for _, f := range finite {
		if !f {
			return false
		}
	}
	return true
}

// storeParameters rounds parameters as the policy keeps them. What is in the format already stays as it is.
func (d *Device) storeParameters(p *bert.Pass, params []float32) {
	out := d.weights(p, d.policy.Parameters, bert.Site{Layer: -1, Op: bert.OpUpdate}, drawOut, len(params))
	flat(len(params), func(i0, i1 int) { d.put(&out, params[i0:i1], 0, i0) })
}
