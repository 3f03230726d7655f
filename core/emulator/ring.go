package emulator

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/tensor"
)

// ring is an all-reduce over n replicas in ring order, as introduced by Baidu (2017) and used by GCL and NCCL. A
// buffer is cut into as many parts as there are replicas. Part c starts at replica c+1, adds up replicas c+2, c+3,
// ... (modulo n), and is complete at replica c: the reduce-scatter. Then it goes round once more: the all-gather.
// Every element therefore has one order of summation, whichever thread computes it.
type ring struct {
	n      int
	pieces []piece
}

// piece is a range of the gradients that lies in one part of one buffer.
type piece struct{ begin, end, part int }

// newRing cuts all gradients into parts at multiples of a stretch or, where the policy has buckets, each bucket.
func newRing(l *tensor.Layout, n int, p *Policy) *ring {
	r := &ring{n: n}
	if p.BucketBytes == 0 {
		part := ((l.Len()+n-1)/n + stretch - 1) / stretch * stretch
		for begin := 0; begin < l.Len(); begin += stretch {
			r.pieces = append(r.pieces, piece{begin, min(l.Len(), begin+stretch), begin / part})
		}
		return r
	}
	width := 4
	if f := p.Reduce.Format; f == numerics.FP16 || f == numerics.BF16 {
		width = 2
	}
	// Gradients are ready from the last tensor to the first. A bucket takes tensors, without gaps, until it is full.
	tensors, limit := l.Tensors(), p.FirstBucketBytes
	for last := len(tensors) - 1; last >= 0; limit = p.BucketBytes {
		first, size := last, tensors[last].Len()
		for first > 0 && size*width < limit {
			first--
			size += tensors[first].Len()
		}
		part, at := (size+n-1)/n, 0
		for t := last; t >= first; t-- {
			r.add(tensors[t], at, part)
			at += tensors[t].Len()
		}
		last = first - 1
	}
	return r
}

// add adds the pieces of a tensor that begins at element at of its bucket.
func (r *ring) add(t tensor.Tensor, at, part int) {
	for i := 0; i < t.Len(); {
		c := (at + i) / part
		end := min(t.Len(), (c+1)*part-at, i+stretch)
		r.pieces = append(r.pieces, piece{t.Offset + i, t.Offset + end, c})
		i = end
	}
}

// each calls body for all pieces, in parallel.
func (r *ring) each(body func(p piece)) {
	kernels.Parallel(len(r.pieces), func(i0, i1 int) {
		for _, p := range r.pieces[i0:i1] {
			body(p)
		}
	})
}

// reduceScatter leaves the sum of part c at replica c, stored after each addition. The other replicas are left with
// partial sums of that part.
func (d *Device) reduceScatter(p *bert.Pass, r *ring, replicas [][]float32) {
	r.each(func(pc piece) {
		sum := replicas[(pc.part+1)%r.n][pc.begin:pc.end]
		for hop := 2; hop <= r.n; hop++ {
			at := *p
			at.Sample = (pc.part + hop) % r.n // the replica that adds, with its own random bits
			next := replicas[at.Sample][pc.begin:pc.end]
			kernels.Add(next, sum, next)
			out := d.weights(&at, d.policy.Reduce, bert.Site{Layer: -1, Op: bert.OpReduce}, drawOut, len(next))
			d.put(&out, next, 0, pc.begin)
			sum = next
		}
	})
}

// allGather copies each part from the replica that has it to all others.
func (r *ring) allGather(replicas [][]float32) {
	r.each(func(pc piece) {
		for _, to := range replicas {
			copy(to[pc.begin:pc.end], replicas[pc.part][pc.begin:pc.end])
		}
	})
}

// collect copies each part from the replica that has it to one buffer, which then holds what every replica has
// after an all-gather.
func (r *ring) collect(sum []float32, replicas [][]float32) {
	r.each(func(pc piece) { copy(sum[pc.begin:pc.end], replicas[pc.part][pc.begin:pc.end]) })
}

// divide multiplies what a replica adds to the ring by 1/n, stored as the ring stores it.
func (d *Device) divide(p *bert.Pass, grads []float32, n int) {
	out := d.weights(p, d.policy.Reduce, bert.Site{Layer: -1, Op: bert.OpReduce}, drawGrad, len(grads))
	flat(len(grads), func(i0, i1 int) {
		kernels.Scale(grads[i0:i1], 1/float32(n), grads[i0:i1])
		d.put(&out, grads[i0:i1], 0, i0)
	})
}
