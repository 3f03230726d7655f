package bert

// Watch returns a Device that does what d does and shows the result of every operator right after its forward pass,
// and the gradient of that result right before the operator's backward pass. An operator that runs again is shown
// once. tokens are those that the rows of the result stand for, see Norm. The values last until see returns.
func Watch(d Device, see func(s Site, gradient bool, values []float32, tokens []int32)) Device {
	type seen struct {
		site     Site
		gradient bool
	}
	before := map[seen]bool{}
	return &watched{Device: d, see: func(s Site, gradient bool, values []float32, tokens []int32) {
		if k := (seen{s, gradient}); !before[k] {
			before[k] = true
			see(s, gradient, values, tokens)
		}
	}}
}

type watched struct {
	Device
	see func(s Site, gradient bool, values []float32, tokens []int32)
}

func (w *watched) Embed(p *Pass, op *Embed) {
	w.Device.Embed(p, op)
	w.see(op.Site, false, op.Y, op.Norm.Tokens)
}

func (w *watched) EmbedBackward(p *Pass, op *Embed, dy []float32) {
	w.see(op.Site, true, dy, op.Norm.Tokens)
	w.Device.EmbedBackward(p, op, dy)
}

func (w *watched) Linear(p *Pass, op *Linear) {
	w.Device.Linear(p, op)
	w.see(op.Site, false, op.Y, op.Tokens)
}

func (w *watched) LinearBackward(p *Pass, op *Linear, dy, dx []float32, accumulate bool) {
	w.see(op.Site, true, dy, op.Tokens)
	w.Device.LinearBackward(p, op, dy, dx, accumulate)
}

func (w *watched) Norm(p *Pass, op *Norm) {
	w.Device.Norm(p, op)
	w.see(op.Site, false, op.Y, op.Tokens)
}

func (w *watched) NormBackward(p *Pass, op *Norm, dy, dx []float32) {
	w.see(op.Site, true, dy, op.Tokens)
	w.Device.NormBackward(p, op, dy, dx)
}

func (w *watched) Attention(p *Pass, op *Attention) {
	w.Device.Attention(p, op)
	w.see(op.Site, false, op.Context, op.Queries)
}

func (w *watched) AttentionBackward(p *Pass, op *Attention, dcontext, dq, dk, dv []float32) {
	w.see(op.Site, true, dcontext, op.Queries)
	w.Device.AttentionBackward(p, op, dcontext, dq, dk, dv)
}
