package bert

// node is an operator of a network, with the memory that it reads and writes.
type node interface {
	load(n *Network, b *Batch) // takes a micro-batch
	forward(d Device, p *Pass)
	backward(d Device, p *Pass)
	reads() []*buffer
	result() *buffer
	// connect finds memory for the gradients of what the node reads. It is called in the order of the backward pass.
	connect(g *gradients)
}

// embedNode is EmbedKind.
type embedNode struct {
	op   Embed
	y    *buffer
	dy   []float32
	tied bool // the decoder sets the gradient of the word embeddings first
}

func (e *embedNode) load(n *Network, b *Batch) {
	e.op.Norm.Rows = n.current.rows(AllTokens)
	e.op.IDs, e.op.Types, e.op.Positions = b.InputIDs, b.TokenTypeIDs, b.PositionIDs
	e.op.Norm.Tokens = n.tokensOf(AllTokens)
}

func (e *embedNode) forward(d Device, p *Pass) { d.Embed(p, &e.op) }

func (e *embedNode) backward(d Device, p *Pass) {
	if !e.tied {
		clear(e.op.DWord)
	}
	d.EmbedBackward(p, &e.op, e.dy)
}

func (e *embedNode) reads() []*buffer     { return nil }
func (e *embedNode) result() *buffer      { return e.y }
func (e *embedNode) connect(g *gradients) { g.of(e.y).show(&e.dy) }

// linearNode is LinearKind.
type linearNode struct {
	op             Linear
	x, y, residual *buffer
	dy, dx         []float32
	accumulate     bool // another operator has written a part of dx before
}

func (l *linearNode) load(n *Network, _ *Batch) {
	l.op.Rows, l.op.Tokens = n.current.rows(l.y.rows), n.tokensOf(l.y.rows)
}

func (l *linearNode) forward(d Device, p *Pass) { d.Linear(p, &l.op) }
func (l *linearNode) backward(d Device, p *Pass) {
	d.LinearBackward(p, &l.op, l.dy, l.dx, l.accumulate)
}

func (l *linearNode) reads() []*buffer {
	if l.residual != nil {
		return []*buffer{l.x, l.residual}
	}
	return []*buffer{l.x}
}

func (l *linearNode) result() *buffer { return l.y }

func (l *linearNode) connect(g *gradients) {
	dy := g.of(l.y)
	if l.residual != nil {
		g.set(l.residual, dy) // LinearBackward leaves it as it is
	}
	l.accumulate = g.begun(l.x)
	if l.y.rows == keyTokens && !l.accumulate {
		panic("bert: the gradient of all tokens begins with that of keys")
	}
	dy.show(&l.dy)
	g.of(l.x).show(&l.dx)
}

// normNode is NormKind. Its backward pass works in place.
type normNode struct {
	op     Norm
	x, y   *buffer
	dy, dx []float32
}

func (l *normNode) load(n *Network, _ *Batch) {
	l.op.Rows, l.op.Tokens = n.current.rows(l.y.rows), n.tokensOf(l.y.rows)
}

func (l *normNode) forward(d Device, p *Pass)  { d.Norm(p, &l.op) }
func (l *normNode) backward(d Device, p *Pass) { d.NormBackward(p, &l.op, l.dy, l.dx) }
func (l *normNode) reads() []*buffer           { return []*buffer{l.x} }
func (l *normNode) result() *buffer            { return l.y }

func (l *normNode) connect(g *gradients) {
	dy := g.of(l.y)
	dy.show(&l.dy, &l.dx)
	g.set(l.x, dy)
}

// attentionNode is AttentionKind.
type attentionNode struct {
	op                   Attention
	q, k, v, context     *buffer
	dcontext, dq, dk, dv []float32
}

func (a *attentionNode) load(n *Network, b *Batch) {
	a.op.Size, a.op.Length, a.op.Mask, a.op.Packed = b.Size, b.Length, b.AttentionMask, b.packed()
	a.op.Queries, a.op.Keys, a.op.Spans = n.tokensOf(a.context.rows), n.tokensOf(keyTokens), nil
	a.op.Read = a.context.rows == ReadTokens && len(n.read.read) > 0
	if a.op.Read {
		a.op.Queries = n.read.read
	}
	if !n.tokens.ordered {
		a.op.Spans = n.tokens.spans
	}
}

func (a *attentionNode) forward(d Device, p *Pass) { d.Attention(p, &a.op) }

func (a *attentionNode) backward(d Device, p *Pass) {
	d.AttentionBackward(p, &a.op, a.dcontext, a.dq, a.dk, a.dv)
}

func (a *attentionNode) reads() []*buffer { return []*buffer{a.q, a.k, a.v} }
func (a *attentionNode) result() *buffer  { return a.context }

func (a *attentionNode) connect(g *gradients) {
	g.of(a.context).show(&a.dcontext)
	g.of(a.q).show(&a.dq)
	g.of(a.k).show(&a.dk)
	g.of(a.v).show(&a.dv)
}

// gatherNode picks the rows of a result that a following operator is computed for.
type gatherNode struct {
	op     Gather
	x, y   *buffer
	rows   []int32 // memory for op.Rows
	dy, dx []float32
	first  bool      // no other operator has written a part of dx before
	moved  []float32 // ReadTokens: room for a copy of dy, since dx may overlap it
}

func (g *gatherNode) load(n *Network, b *Batch) {
	rows := n.current.rows(g.y.rows)
	if g.y.rows == ReadTokens {
		g.op.Rows = n.read.from(rows)
		return
	}
	g.op.Rows = g.rows[:rows]
	for i := range g.op.Rows {
		if g.y.rows == MaskedTokens {
			g.op.Rows[i] = n.read.place(b.maskedToken(i))
		} else {
			g.op.Rows[i] = n.read.place(b.firstToken(i))
		}
	}
}

func (g *gatherNode) forward(d Device, p *Pass) { d.Gather(p, &g.op) }

// backward moves the gradients of the read tokens to their rows among all tokens, where nothing has been added yet.
// A token that occurs twice has its whole gradient in its first row. The gradients of what the heads gather are
// added.
func (g *gatherNode) backward(d Device, p *Pass) {
	if g.y.rows == ReadTokens {
		copy(g.moved, g.dy)
		d.Scatter(p, &g.op, g.moved, g.dx)
		return
	}
	if g.first {
		clear(g.dx)
	}
	d.GatherBackward(p, &g.op, g.dy, g.dx)
}

func (g *gatherNode) reads() []*buffer { return []*buffer{g.x} }
func (g *gatherNode) result() *buffer  { return g.y }

func (g *gatherNode) connect(to *gradients) {
	to.of(g.y).show(&g.dy)
	g.first = !to.begun(g.x)
	to.of(g.x).show(&g.dx)
	if g.y.rows == ReadTokens {
		to.room(g.y).show(&g.moved)
	}
}
