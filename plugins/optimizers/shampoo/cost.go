package shampoo

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// eigenFlops is what the eigenvalues and eigenvectors of a symmetric matrix of n rows take, in n³: tridiagonal form
// and implicit QR with the vectors. Source: Golub, Van Loan, "Matrix Computations", section 8.3: 9n³.
const eigenFlops = 9

// Cost implements what optimizer.Coster asks of a rule. Source: Gupta et al. 2018, algorithm 1; Anil et al. 2020,
// section 4.
//
//	every element  v 3, d 4, the norms of d and S 4, momentum 3, its correction 1, step 2, decay 2
//	every block    L += G·Gᵀ and S = root·G on its shorter side; on both when it is square
//	every root     eigenvectors, and their product with themselves, once in precondition_every steps
func (r *rule) Cost(l *tensor.Layout) optimizer.Cost {
	blocks := map[int][]block{}
	for _, b := range cut(l, r.blockSize) {
		blocks[b.tensor] = append(blocks[b.tensor], b)
	}
	i := -1
	return optimizer.CostOver(l, optimizer.FP32Slots(r.Slots()...), func(t tensor.Tensor) optimizer.TensorCost {
		i++
		n := int64(t.Len())
		c := optimizer.TensorCost{State: []int64{n, n, 0, 0, 0, 0}, Flops: 17 * float64(n), Params: 2, Grads: 3}
		if r.weightDecay != 0 {
			c.Flops += 2 * float64(n)
		}
		r.addBlocks(&c, blocks[i])
		return c.Clipped(t, r.maxGradNorm)
	})
}

// addBlocks adds what the preconditioners of a tensor's blocks take. Blocks of one shape are computed together.
func (r *rule) addBlocks(c *optimizer.TensorCost, blocks []block) {
	alike, shapes := map[block]int{}, []block(nil)
	for _, b := range blocks {
		shape := block{rows: b.rows, cols: b.cols}
		if alike[shape]++; alike[shape] == 1 {
			shapes = append(shapes, shape)
		}
	}
	often := 1 / float64(r.every)
	for _, b := range shapes {
		groups, size := alike[b], b.rows*b.cols
		side := func(stats, root, n int) {
			statistics := int64(groups) * int64(n) * int64(n)
			c.State[stats] += statistics
			c.State[root] += statistics
			cube := float64(statistics) * float64(n)
			c.Flops += float64(statistics) + often*eigenFlops*cube
			c.Kernels += often
			c.Products = append(c.Products,
				optimizer.Product{Count: 1, Groups: groups, M: n, K: size / n, N: n},
				optimizer.Product{Count: 1, Groups: groups, M: n, K: n, N: size / n},
				optimizer.Product{Count: often, Groups: groups, M: n, K: n, N: n})
		}
		if b.rows <= b.cols {
			side(slotLeft, slotLeftRoot, b.rows)
		}
		if b.cols <= b.rows {
			side(slotRight, slotRightRoot, b.cols)
		}
	}
}
