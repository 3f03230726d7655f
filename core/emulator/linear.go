package emulator

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Linear computes Y = dropout(act(X·Wᵀ + B)) or Y = Residual + dropout(X·Wᵀ + B). Everything after the product
// happens in its epilogue.
func (d *Device) Linear(p *bert.Pass, op *bert.Linear) {
	product := op.Y
	if op.Pre != nil {
		product = op.Pre
	}
	rows := batchRows{op.Rows, op.Tokens}
	out := d.outputs(p, d.policy.Linear.Out, op.Site, drawOut, rows, op.Out)
	activation := d.outputs(p, d.policy.Pointwise.Out, op.Site, drawActivation, rows, op.Out)
	dropped := d.outputs(p, d.policy.Pointwise.Out, op.Site, drawDropout, rows, op.Out)
	sum := d.outputs(p, d.policy.Residual.Out, op.Site, drawResidual, rows, op.Out)
	mask, drop := d.keep(p, op.Dropout, op.Site, rows, op.Out)
	g := kernels.Gemm{
		TransB: true, M: op.Rows, N: op.Out, K: op.In, A: op.X, LDA: op.In, B: op.W, LDB: op.In, C: product, LDC: op.Out,
		RoundA: d.policy.readHidden(), RoundB: d.policy.readWeights(), Inputs: d.policy.Inputs,
		Partials: d.partials(p, op.Site, drawOut, 0, p.Sample),
		Epilogue: func(row, col int, c []float32) {
			kernels.AddBias(c, c, op.B[col:min(op.Out, col+len(c))])
			d.put(&out, c, row, col)
			at := row*op.Out + col
			if op.Activation != bert.NoActivation {
				y := op.Y[at : at+len(c)]
				activate(op.Activation, y, c)
				d.put(&activation, y, row, col)
				c = y
			}
			if drop {
				mask.drop(c, op.Dropout, row, col)
				d.put(&dropped, c, row, col)
			}
			if op.Residual != nil {
				kernels.Add(c, c, op.Residual[at:at+len(c)])
				d.put(&sum, c, row, col)
			}
		},
	}
	defer d.quantize(p, op.Site, &g, factor{d.policy.Products.Input, op.Rows, op.In, false, inputRole, drawInputOperand},
		factor{d.policy.Products.Weight, op.Out, op.In, false, weightRole, drawWeightOperand})()
	g.Run()
}

// activate computes y = act(x).
func activate(a bert.Activation, y, x []float32) {
	switch a {
	case bert.GELU:
		kernels.GeluErf(y, x)
	case bert.GELUNew:
		kernels.GeluTanh(y, x)
	case bert.Tanh:
		kernels.Tanh(y, x)
	default:
		copy(y, x)
	}
}

// LinearBackward takes dy back through dropout and activation, which gives the gradient dz of the product, and from
// it dB = Σ dz, dW = dzᵀ·X and dx = dz·W.
func (d *Device) LinearBackward(p *bert.Pass, op *bert.Linear, dy, dx []float32, accumulate bool) {
	s := d.scratch.get()
	defer d.scratch.put(s)
	nblocks := (op.Rows + blockRows - 1) / blockRows
	rows, branch := batchRows{op.Rows, op.Tokens}, Store{}
	if op.Residual != nil {
		branch = d.policy.Pointwise.Grad
	}
	mask, drop := d.keep(p, op.Dropout, op.Site, rows, op.Out)

	// dz overwrites dy unless dy is the gradient of the residual, too.
	size := nblocks * op.Out
	dz := dy
	if op.Residual != nil && (drop || branch.Format != numerics.FP32) {
		size += len(dy)
	}
	floats := s.take(size)
	sums := floats[:nblocks*op.Out]
	if size > len(sums) {
		dz = floats[len(sums):]
	}

	enter := d.outputs(p, branch, op.Site, drawBranch, rows, op.Out)
	dropped := d.outputs(p, d.policy.Pointwise.Grad, op.Site, drawDropoutGrad, rows, op.Out)
	activation := d.outputs(p, d.policy.Pointwise.Grad, op.Site, drawActivationGrad, rows, op.Out)
	again := d.outputs(p, d.policy.Pointwise.Out, op.Site, drawActivation, rows, op.Out)
	blocks(op.Rows, func(block, r0, r1 int) {
		z := dz[r0*op.Out : r1*op.Out]
		if size > len(sums) {
			copy(z, dy[r0*op.Out:])
			d.putRows(&enter, dz, r0, r1)
		}
		if drop {
			mask.dropRows(dz, op.Dropout, r0, r1)
			d.putRows(&dropped, dz, r0, r1)
		}
		if op.Activation != bert.NoActivation {
			pre := op.Pre[r0*op.Out : r1*op.Out]
			switch op.Activation {
			case bert.GELU:
				kernels.GeluErfGrad(z, z, pre)
			case bert.GELUNew:
				kernels.GeluTanhGrad(z, z, pre)
			case bert.Tanh:
				// Dropout may have changed Y, so the tanh is computed again, with the same rounding. It overwrites Pre, which
				// is no longer needed.
				kernels.Tanh(pre, pre)
				d.putRows(&again, op.Pre, r0, r1)
				kernels.TanhGrad(z, z, pre)
			}
			d.putRows(&activation, dz, r0, r1)
		}
		sum := sums[block*op.Out : (block+1)*op.Out]
		clear(sum)
		kernels.ColumnSums(sum, dz[r0*op.Out:], r1-r0, op.Out)
	})
	sumBlocks(op.DB, sums, op.Rows, op.Out)
	bias := d.weights(p, d.policy.Linear.Weight, op.Site, drawBias, op.Out)
	d.put(&bias, op.DB, 0, 0)

	// dz has the format of Pointwise.Grad, or of Linear.Grad where another product computed it. On every device that
	// rounds inputs to a narrow storage format, both are that format.
	read := d.policy.read(d.policy.Linear.Grad)
	weight, g := d.weights(p, d.policy.product(d.policy.Linear.Weight), op.Site, drawWeight, op.In), &s.gemm
	*g = kernels.Gemm{
		TransA: true, M: op.Out, N: op.In, K: op.Rows, A: dz, LDA: op.Out, B: op.X, LDB: op.In, C: op.DW, LDC: op.In,
		RoundA: read, RoundB: d.policy.readHidden(), Inputs: d.policy.Inputs, Partials: d.partials(p, op.Site, drawWeight, 0, p.Sample),
		Epilogue: d.epilogue(&weight),
	}
	done := d.quantize(p, op.Site, g, factor{d.policy.Products.WeightGradient, op.Rows, op.Out, true, gradientRole, drawWeightGradient},
		factor{d.policy.Products.WeightInput, op.Rows, op.In, true, inputRole, drawWeightInput})
	g.Run()
	done()
	switch n := d.policy.Serialize; {
	case n > 1 && op.Site.Op == bert.OpDecoder && dx != nil:
		d.serialGrad(p, op, dz, dx, n)
	case dx != nil:
		d.inputGrad(p, op, dz, dx, accumulate)
	}
}

// epilogue returns the epilogue that stores a product's result, or nil when there is nothing to round.
func (d *Device) epilogue(s *store) func(row, col int, c []float32) {
	if s.Format == numerics.FP32 {
		return nil
	}
	return func(row, col int, c []float32) { d.put(s, c, row, col) }
}

// inputGrad computes dx = dz·W, or dx += dz·W.
func (d *Device) inputGrad(p *bert.Pass, op *bert.Linear, dz, dx []float32, accumulate bool) {
	s := d.scratch.get()
	defer d.scratch.put(s)
	rows := batchRows{op.Rows, op.Tokens}
	grad := d.outputs(p, d.policy.product(d.policy.Linear.Grad), op.Site, drawGrad, rows, op.In)
	g := &s.gemm
	*g = kernels.Gemm{
		M: op.Rows, N: op.In, K: op.Out, A: dz, LDA: op.Out, B: op.W, LDB: op.In, C: dx, LDC: op.In, Accumulate: accumulate,
		RoundA: d.policy.read(d.policy.Linear.Grad), RoundB: d.policy.readWeights(), Inputs: d.policy.Inputs,
		Partials: d.partials(p, op.Site, drawGrad, 0, p.Sample),
		Epilogue: d.epilogue(&grad),
	}
	defer d.quantize(p, op.Site, g, factor{d.policy.Products.BackGradient, op.Rows, op.Out, false, gradientRole, drawBackGradient},
		factor{d.policy.Products.BackWeight, op.Out, op.In, true, weightRole, drawBackWeight})()
	if accumulate && (grad.Format != numerics.FP32 || g.Partials.Chunk > 0) {
		// The device stores the product before it adds it.
		meet := d.outputs(p, d.policy.Residual.Grad, op.Site, drawMeet, rows, op.In)
		g.C, g.Accumulate = s.take(op.Rows*op.In), false
		g.Epilogue = func(row, col int, c []float32) {
			d.put(&grad, c, row, col)
			sum := dx[row*op.In+col:][:len(c)]
			kernels.Add(sum, sum, c)
			d.put(&meet, sum, row, col)
		}
	}
	g.Run()
}

// serialGrad computes dx = dz·W as a sum over n slices of the outputs, each product stored before it is added.
func (d *Device) serialGrad(p *bert.Pass, op *bert.Linear, dz, dx []float32, n int) {
	s := d.scratch.get()
	defer d.scratch.put(s)
	part, rows := s.take(len(dx)), batchRows{op.Rows, op.Tokens}
	for i := range n {
		k0, k1 := i*op.Out/n, (i+1)*op.Out/n
		grad := d.outputs(p, d.policy.product(d.policy.Linear.Grad), op.Site, drawGrad, rows, op.In)
		meet := d.outputs(p, d.policy.Linear.Grad, op.Site, drawMeet, rows, op.In)
		// Each slice has its own random bits.
		grad.stream.Site, meet.stream.Site = op.Site.Stream(drawGrad, uint32(i)), op.Site.Stream(drawMeet, uint32(i))
		g := &s.gemm
		*g = kernels.Gemm{
			M: op.Rows, N: op.In, K: k1 - k0, A: dz[k0:], LDA: op.Out, B: op.W[k0*op.In:], LDB: op.In, C: part, LDC: op.In,
			RoundA: d.policy.read(d.policy.Linear.Grad), RoundB: d.policy.readWeights(), Inputs: d.policy.Inputs,
			Partials: d.partials(p, op.Site, drawGrad, uint32(i), p.Sample),
		}
		g.Epilogue = func(row, col int, c []float32) {
			d.put(&grad, c, row, col)
			sum := dx[row*op.In+col:][:len(c)]
			if i == 0 {
				copy(sum, c)
				return
			}
			kernels.Add(sum, sum, c)
			d.put(&meet, sum, row, col)
		}
		g.Run()
	}
}
