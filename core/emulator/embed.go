package emulator

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Embed sums the three embeddings of each token, normalises the sum, and applies dropout.
func (d *Device) Embed(p *bert.Pass, op *bert.Embed) {
	norm := &op.Norm
	H, rows := norm.Width, batchRows{norm.Rows, norm.Tokens}
	sum := d.outputs(p, d.policy.Embed.Out, op.Site, drawResidual, rows, H)
	n := d.newNormStores(p, norm)
	mask, drop := d.keep(p, op.Dropout, op.Site, rows, H)
	dropped := d.outputs(p, d.policy.Pointwise.Out, op.Site, drawDropout, rows, H)
	length := len(op.IDs) / p.Size
	blocks(norm.Rows, func(_, r0, r1 int) {
		for r := r0; r < r1; r++ {
			x := norm.X[r*H : (r+1)*H]
			token := tokenOf(norm, r)
			id, position, kind := int(op.IDs[token])*H, positionOf(op, token, length)*H, int(op.Types[token])*H
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

// cacheLine is the number of columns of a cache line, of which each belongs to one worker.
const cacheLine = 16

// tokenOf is the token that a row stands for.
func tokenOf(op *bert.Norm, row int) int {
	if len(op.Tokens) > 0 {
		return int(op.Tokens[row])
	}
	return row
}

// positionOf is the position of a token in its sequence.
func positionOf(op *bert.Embed, token, length int) int {
	if len(op.Positions) > 0 {
		return int(op.Positions[token])
	}
	return token % length
}

// EmbedBackward goes back through dropout and norm, and adds each token's gradient to the table rows that the token
// read. Workers divide the columns among them and each goes through the tokens in order, so sums always have the
// same order.
func (d *Device) EmbedBackward(p *bert.Pass, op *bert.Embed, dy []float32) {
	norm := &op.Norm
	H, length, rows := norm.Width, len(op.IDs)/p.Size, batchRows{norm.Rows, norm.Tokens}
	if mask, drop := d.keep(p, op.Dropout, op.Site, rows, H); drop {
		dropped := d.outputs(p, d.policy.Pointwise.Grad, op.Site, drawDropoutGrad, rows, H)
		blocks(norm.Rows, func(_, r0, r1 int) {
			mask.dropRows(dy, op.Dropout, r0, r1)
			d.putRows(&dropped, dy, r0, r1)
		})
	}
	d.NormBackward(p, norm, dy, dy)
	enter := d.outputs(p, d.policy.Embed.Grad, op.Site, drawBranch, rows, H)
	if enter.Format != numerics.FP32 {
		blocks(norm.Rows, func(_, r0, r1 int) { d.putRows(&enter, dy, r0, r1) })
	}

	clear(op.DType)
	// Where every sequence has a token at every position, the sum over sequences is one over columns.
	columns := len(op.Positions) == 0 && len(norm.Tokens) == 0
	if columns {
		clear(op.DPosition[length*H:])
	} else {
		clear(op.DPosition)
	}
	kernels.Parallel((H+cacheLine-1)/cacheLine, func(u0, u1 int) {
		c0, c1 := u0*cacheLine, min(H, u1*cacheLine)
		for s := 0; columns && s < length; s++ {
			clear(op.DPosition[s*H+c0 : s*H+c1])
			kernels.ColumnSums(op.DPosition[s*H+c0:s*H+c1], dy[s*H+c0:], p.Size, length*H)
		}
		for r := range norm.Rows {
			token := tokenOf(norm, r)
			g := dy[r*H+c0 : r*H+c1]
			id, kind := int(op.IDs[token])*H, int(op.Types[token])*H
			kernels.Add(op.DWord[id+c0:id+c1], op.DWord[id+c0:id+c1], g)
			kernels.Add(op.DType[kind+c0:kind+c1], op.DType[kind+c0:kind+c1], g)
			if !columns {
				position := positionOf(op, token, length) * H
				kernels.Add(op.DPosition[position+c0:position+c1], op.DPosition[position+c0:position+c1], g)
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
func (d *Device) Gather(_ *bert.Pass, op *bert.Gather) {
	kernels.Parallel(len(op.Rows), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			copy(op.Y[i*op.Width:(i+1)*op.Width], op.X[int(op.Rows[i])*op.Width:])
		}
	})
}

// GatherBackward adds rows in order. No row belongs to two sequences, so workers can divide the sequences among them.
func (d *Device) GatherBackward(p *bert.Pass, op *bert.Gather, dy, dx []float32) {
	rows := len(op.Rows) / p.Size
	meet := d.outputs(p, d.policy.Residual.Grad, op.Site, drawMeet, batchRows{count: len(op.Rows)}, op.Width)
	kernels.Parallel(p.Size, func(b0, b1 int) {
		for i := b0 * rows; i < b1*rows; i++ {
			sum := dx[int(op.Rows[i])*op.Width:][:op.Width]
			kernels.Add(sum, sum, dy[i*op.Width:(i+1)*op.Width])
			d.put(&meet, sum, i, 0)
		}
	})
}

// Scatter moves rows without adding or rounding. Workers divide the columns among them, as rows may be equal.
func (d *Device) Scatter(_ *bert.Pass, op *bert.Gather, dy, dx []float32) {
	H := op.Width
	kernels.Parallel((H+cacheLine-1)/cacheLine, func(u0, u1 int) {
		c0, c1 := u0*cacheLine, min(H, u1*cacheLine)
		for r := 0; r < len(dx); r += H {
			clear(dx[r+c0 : r+c1])
		}
		for i := len(op.Rows) - 1; i >= 0; i-- {
			copy(dx[int(op.Rows[i])*H+c0:][:c1-c0], dy[i*H+c0:])
		}
	})
}
