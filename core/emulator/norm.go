package emulator

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Norm normalises the rows of X and applies dropout. Statistics are computed in FP32 from the stored X.
func (d *Device) Norm(p *bert.Pass, op *bert.Norm) {
	n, rows := d.newNormStores(p, op), batchRows{op.Rows, op.Tokens}
	mask, drop := d.keep(p, op.Dropout, op.Site, rows, op.Width)
	dropped := d.outputs(p, d.policy.Pointwise.Out, op.Site, drawDropout, rows, op.Width)
	blocks(op.Rows, func(_, r0, r1 int) {
		d.normRows(op, n, r0, r1)
		if drop {
			mask.dropRows(op.Y, op.Dropout, r0, r1)
			d.putRows(&dropped, op.Y, r0, r1)
		}
	})
}

// normStores are the stores of one layer norm.
type normStores struct {
	mean, rstd, out store
}

func (d *Device) newNormStores(p *bert.Pass, op *bert.Norm) *normStores {
	rows := batchRows{op.Rows, op.Tokens}
	return &normStores{
		mean: d.outputs(p, d.policy.Statistics, op.Site, drawMean, rows, 1),
		rstd: d.outputs(p, d.policy.Statistics, op.Site, drawRStd, rows, 1),
		out:  d.outputs(p, d.policy.Norm.Out, op.Site, drawOut, rows, op.Width),
	}
}

// normRows normalises rows r0 to r1.
func (d *Device) normRows(op *bert.Norm, n *normStores, r0, r1 int) {
	H := op.Width
	kernels.LayerNorm(op.Y[r0*H:r1*H], op.Mean[r0:r1], op.RStd[r0:r1], op.X[r0*H:r1*H], op.Gamma, op.Beta, float32(op.Eps))
	if n.mean.Format != numerics.FP32 {
		d.putRows(&n.mean, op.Mean, r0, r1)
		d.putRows(&n.rstd, op.RStd, r0, r1)
		for r := r0; r < r1; r++ {
			kernels.Normalise(op.Y[r*H:(r+1)*H], op.X[r*H:(r+1)*H], op.Gamma, op.Beta, op.Mean[r], op.RStd[r])
		}
	}
	d.putRows(&n.out, op.Y, r0, r1)
}

// NormBackward computes dx and, block by block of rows, the sums for DGamma and DBeta.
func (d *Device) NormBackward(p *bert.Pass, op *bert.Norm, dy, dx []float32) {
	s := d.scratch.get()
	defer d.scratch.put(s)
	H, nblocks := op.Width, (op.Rows+blockRows-1)/blockRows
	sums := s.take(2 * nblocks * H)
	rows := batchRows{op.Rows, op.Tokens}
	grad := d.outputs(p, d.policy.Norm.Grad, op.Site, drawGrad, rows, H)
	mask, drop := d.keep(p, op.Dropout, op.Site, rows, H)
	dropped := d.outputs(p, d.policy.Pointwise.Grad, op.Site, drawDropoutGrad, rows, H)
	blocks(op.Rows, func(block, r0, r1 int) {
		sum := sums[2*block*H : 2*(block+1)*H]
		clear(sum)
		if drop {
			mask.dropRows(dy, op.Dropout, r0, r1)
			d.putRows(&dropped, dy, r0, r1)
		}
		kernels.LayerNormGrad(dx[r0*H:r1*H], sum[:H], sum[H:], dy[r0*H:r1*H], op.X[r0*H:r1*H], op.Gamma, op.Mean[r0:r1], op.RStd[r0:r1])
		d.putRows(&grad, dx, r0, r1)
	})
	sumBlocks(op.DGamma, sums, op.Rows, 2*H)
	sumBlocks(op.DBeta, sums[H:], op.Rows, 2*H)
	gamma := d.weights(p, d.policy.Norm.Weight, op.Site, drawWeight, H)
	beta := d.weights(p, d.policy.Norm.Weight, op.Site, drawBias, H)
	d.put(&gamma, op.DGamma, 0, 0)
	d.put(&beta, op.DBeta, 0, 0)
}
