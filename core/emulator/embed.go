package emulator

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Embed sums the three embeddings of each token, normalises the sum, and applies dropout.
func (d *Device) Embed(p *bert.Pass, op *bert.Embed) {
	norm := &op.Norm
	H, length := norm.Width, norm.Rows/p.Size
	sum := d.outputs(p, d.policy.Embed.Out, op.Site, drawResidual, norm.Rows, H)
	n := d.newNormStores(p, norm)
	mask, drop := d.keep(p, op.Dropout, op.Site, norm.Rows, H)
	dropped := d.outputs(p, d.policy.Pointwise.Out, op.Site, drawDropout, norm.Rows, H)
	blocks(norm.Rows, func(_, r0, r1 int) {
		for r := r0; r < r1; r++ {
			x := norm.X[r*H : (r+1)*H]
			id, position, kind := int(op.IDs[r])*H, r%length*H, int(op.Types[r])*H
			if len(op.Positions) > 0 {
				position = int(op.Positions[r]) * H
			}
			kernels.Add(x, op.Word[id:id+H], op.Position[position:position+H])
			kernels.Add(x, x, op.Type[kind:kind+H])
		}
		d.putRows(&sum, norm.X, r0, r1)
		d.normRows(norm, n, r0, r1)
		copy(op.Y[r0*H:r1*H], norm.Y[r0*H:r1*H])
		if drop {
			mask.dropRows(op.Y, op.Dropout, r0, r1)
			d.putRows(&dropped, op.Y, r0, r1)
		}
	})
}

// EmbedBackward goes back through dropout and norm, and adds each token's gradient to the table rows that the token
// read. Workers divide the columns among them and each goes through the tokens in order, so sums always have the
// same order.
func (d *Device) EmbedBackward(p *bert.Pass, op *bert.Embed, dy []float32) {
	norm := &op.Norm
	H, length := norm.Width, norm.Rows/p.Size
	if mask, drop := d.keep(p, op.Dropout, op.Site, norm.Rows, H); drop {
		dropped := d.outputs(p, d.policy.Pointwise.Grad, op.Site, drawDropoutGrad, norm.Rows, H)
		blocks(norm.Rows, func(_, r0, r1 int) {
			mask.dropRows(dy, op.Dropout, r0, r1)
			d.putRows(&dropped, dy, r0, r1)
		})
	}
	d.NormBackward(p, norm, dy, dy)
	enter := d.outputs(p, d.policy.Embed.Grad, op.Site, drawBranch, norm.Rows, H)
	if enter.Format != numerics.FP32 {
		blocks(norm.Rows, func(_, r0, r1 int) { d.putRows(&enter, dy, r0, r1) })
	}

	clear(op.DType)
	if packed := len(op.Positions) > 0; packed {
		clear(op.DPosition)
	} else {
		clear(op.DPosition[length*H:])
	}
	const unit = 16 // columns of one cache line
	kernels.Parallel((H+unit-1)/unit, func(u0, u1 int) {
		c0, c1 := u0*unit, min(H, u1*unit)
		for s := range length {
			if len(op.Positions) > 0 {
				break
			}
			clear(op.DPosition[s*H+c0 : s*H+c1])
			kernels.ColumnSums(op.DPosition[s*H+c0:s*H+c1], dy[s*H+c0:], p.Size, length*H)
		}
		for r, id := range op.IDs {
			g := dy[r*H+c0 : r*H+c1]
			word := op.DWord[int(id)*H+c0 : int(id)*H+c1]
			kernels.Add(word, word, g)
			kind := op.DType[int(op.Types[r])*H+c0 : int(op.Types[r])*H+c1]
			kernels.Add(kind, kind, g)
			if len(op.Positions) > 0 {
				position := op.DPosition[int(op.Positions[r])*H+c0 : int(op.Positions[r])*H+c1]
				kernels.Add(position, position, g)
			}
		}
	})
	d.storeTables(p, op, length)
}

// storeTables rounds the gradients of the tables once, after they are summed. Rows of DWord that no token read were
// stored by the decoder.
func (d *Device) storeTables(p *bert.Pass, op *bert.Embed, length int) {
	H := op.Norm.Width
	word := d.weights(p, d.policy.Embed.Weight, op.Site, drawOut, H)
	if word.Format == numerics.FP32 {
		return
	}
	position := d.weights(p, d.policy.Embed.Weight, op.Site, drawWeight, H)
	kind := d.weights(p, d.policy.Embed.Weight, op.Site, drawBias, H)
	// A word that occurs twice is rounded twice, which does no harm: rounding leaves values of the format as they are.
	kernels.Parallel(len(op.DWord)/H, func(i0, i1 int) {
		for _, id := range op.IDs {
			if i := int(id); i >= i0 && i < i1 {
				d.put(&word, op.DWord[i*H:(i+1)*H], 0, i*H)
			}
		}
	})
	if len(op.Positions) > 0 {
		length = len(op.DPosition) / H
	}
	d.put(&position, op.DPosition[:length*H], 0, 0)
	d.put(&kind, op.DType, 0, 0)
}

// Gather copies rows.
func (d *Device) Gather(p *bert.Pass, op *bert.Gather) {
	rows := len(op.Rows) / p.Size
	kernels.Parallel(p.Size, func(b0, b1 int) {
		for i := b0 * rows; i < b1*rows; i++ {
			copy(op.Y[i*op.Width:(i+1)*op.Width], op.X[int(op.Rows[i])*op.Width:])
		}
	})
}

// GatherBackward adds rows in order. No row belongs to two sequences, so workers can divide the sequences among them.
func (d *Device) GatherBackward(p *bert.Pass, op *bert.Gather, dy, dx []float32) {
	rows := len(op.Rows) / p.Size
	meet := d.outputs(p, d.policy.Residual.Grad, op.Site, drawMeet, len(op.Rows), op.Width)
	kernels.Parallel(p.Size, func(b0, b1 int) {
		for i := b0 * rows; i < b1*rows; i++ {
			sum := dx[int(op.Rows[i])*op.Width:][:op.Width]
			kernels.Add(sum, sum, dy[i*op.Width:(i+1)*op.Width])
			d.put(&meet, sum, i, 0)
		}
	})
}

// Scatter moves rows without adding or rounding.
func (d *Device) Scatter(p *bert.Pass, op *bert.Gather, dy, dx []float32) {
	rows, sequence := len(op.Rows)/p.Size, len(dx)/p.Size
	kernels.Parallel(p.Size, func(b0, b1 int) {
		clear(dx[b0*sequence : b1*sequence])
		for i := b1*rows - 1; i >= b0*rows; i-- {
			copy(dx[int(op.Rows[i])*op.Width:][:op.Width], dy[i*op.Width:])
		}
	})
}
