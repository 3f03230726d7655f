package bert

// builder makes the nodes of a part from the table of operators, unit by unit.
type builder struct {
	*Network
	parameters binder
	results    map[string]*buffer // by operator
	nodes      []node             // of the unit
}

// Groups of buffers in the workspace that belong to no unit in particular.
const (
	gradientsGroup  = -1
	embeddingsGroup = -2
	leavingGroup    = -3
)

// build makes the units of the part. Operators read the buffers that earlier operators write.
func (n *Network) build(parameters binder) {
	b := &builder{Network: n, parameters: parameters, results: map[string]*buffer{}}
	all := Operators(n.model.Config, n.model.Head)
	var hidden *buffer // the hidden states that enter a unit
	for i := range all {
		if o := &all[i]; o.Hidden && o.Unit == n.first-1 {
			hidden = n.allocate(o.Rows, o.Width, &n.in)
			b.results[o.Name] = hidden
		}
	}
	var entering []*buffer
	for u := n.first; u < n.end; u++ {
		n.key, b.nodes = workspaceKey{group: n.workspaceGroup(u)}, nil
		for i := range all {
			if all[i].Unit == u {
				b.add(&all[i])
			}
		}
		n.units = append(n.units, unitNodes{forward: b.nodes})
		entering = append(entering, hidden)
		hidden = b.nodes[len(b.nodes)-1].result()
	}
	if n.hasHeads() {
		hidden = nil
		b.losses(all)
	} else {
		hidden.show(&n.out)
	}
	if n.grads != nil {
		n.connectGradients(hidden, entering)
	}
}

// add makes the node of an operator, preceded by one that gathers rows if the operator is computed for fewer than
// what it reads has.
func (b *builder) add(o *Operator) {
	switch o.Kind {
	case EmbedKind:
		b.embed(o)
	case LinearKind:
		b.linear(o)
	case NormKind:
		l := &normNode{x: b.read(o, o.Reads[0]), y: b.write(o)}
		l.op.Dropout = o.Dropout
		l.x.show(&l.op.X)
		l.y.show(&l.op.Y)
		b.norm(&l.op, o)
		b.nodes = append(b.nodes, l)
	case AttentionKind:
		c := &b.model.Config
		a := &attentionNode{q: b.results[o.Reads[0]], k: b.results[o.Reads[1]], v: b.results[o.Reads[2]], context: b.write(o)}
		a.op = Attention{Site: o.Site, Heads: c.NumAttentionHeads, Width: o.Width, MaskValue: c.AttentionMask,
			Dropout: c.AttentionProbsDropoutProb}
		a.q.show(&a.op.Q)
		a.k.show(&a.op.K)
		a.v.show(&a.op.V)
		a.context.show(&a.op.Context)
		b.nodes = append(b.nodes, a)
	}
}

func (b *builder) embed(o *Operator) {
	e := &embedNode{y: b.write(o), tied: b.model.Head.Task == Pretraining}
	e.op.Site, e.op.Dropout = o.Site, o.Dropout
	e.op.Word, e.op.DWord = b.parameters.of(wordEmbeddings)
	e.op.Position, e.op.DPosition = b.parameters.of(positionEmbeddings)
	e.op.Type, e.op.DType = b.parameters.of(typeEmbeddings)
	b.norm(&e.op.Norm, o)
	b.inside(o.Rows, o.Width, &e.op.Norm.X)
	e.y.show(&e.op.Y, &e.op.Norm.Y)
	b.Network.embed = &e.op
	b.nodes = append(b.nodes, e)
}

func (b *builder) linear(o *Operator) {
	l := &linearNode{x: b.read(o, o.Reads[0]), y: b.write(o)}
	l.op = Linear{Site: o.Site, In: o.In, Out: o.Width, Activation: o.Activation, Dropout: o.Dropout}
	l.op.W, l.op.DW = b.parameters.of(o.Weight)
	l.op.B, l.op.DB = b.parameters.of(o.Bias)
	l.x.show(&l.op.X)
	l.y.show(&l.op.Y)
	if o.Activation != NoActivation {
		b.inside(o.Rows, o.Width, &l.op.Pre)
	}
	if o.Residual != "" {
		l.residual = b.read(o, o.Residual)
		l.residual.show(&l.op.Residual)
	}
	if o.Site.Op == OpDecoder {
		b.decoder = &l.op
	}
	b.nodes = append(b.nodes, l)
}

// norm binds a layer norm, or that of the embeddings, to its parameters and statistics.
func (b *builder) norm(op *Norm, o *Operator) {
	op.Site, op.Width, op.Eps = o.Site, o.Width, b.model.Config.LayerNormEps
	op.Gamma, op.DGamma = b.parameters.of(o.Weight)
	op.Beta, op.DBeta = b.parameters.of(o.Bias)
	b.inside(o.Rows, 1, &op.Mean)
	b.inside(o.Rows, 1, &op.RStd)
}

// read returns a result that an operator reads, reduced to the operator's own rows.
func (b *builder) read(o *Operator, name string) *buffer {
	x := b.results[name]
	if x.rows == o.Rows {
		return x
	}
	for _, n := range b.nodes {
		if g, ok := n.(*gatherNode); ok && g.x == x && g.y.rows == o.Rows {
			return g.y
		}
	}
	g := &gatherNode{op: Gather{Site: Site{Layer: o.Site.Layer, Op: OpGather}, Width: x.width}, x: x, y: b.inside(o.Rows, x.width)}
	if o.Rows != ReadTokens {
		g.rows = make([]int32, b.limit.rows(o.Rows))
	}
	x.show(&g.op.X)
	g.y.show(&g.op.Y)
	b.nodes = append(b.nodes, g)
	return g.y
}

// write makes the buffer of an operator's result. The hidden states between layers are kept even if the layers are
// recomputed.
func (b *builder) write(o *Operator) *buffer {
	var y *buffer
	rows := o.Rows
	if op := o.Site.Op; op == OpKey || op == OpValue {
		rows = keyTokens // of what enters the unit they read only the first rows
	}
	switch next := o.Unit + 1; {
	case o.Hidden && next == b.end:
		key := b.key
		b.key = workspaceKey{group: leavingGroup}
		y = b.inside(rows, o.Width)
		b.key = key
	case o.Hidden && b.recompute == RecomputeLayer && b.group(next) == next:
		y = b.allocate(rows, o.Width)
	default:
		y = b.inside(rows, o.Width)
	}
	b.results[o.Name] = y
	if o.Output != "" {
		b.outputs[o.Output] = y
	}
	if o.Hidden && o.Unit == b.model.Config.Units()-2 {
		b.outputs[sequenceOutput] = y
	}
	return y
}

// losses finds the results that the losses are computed from.
func (b *builder) losses(all []Operator) {
	for i := range all {
		o := &all[i]
		if o.From != LossName {
			continue
		}
		result := b.results[o.Name]
		switch o.Site.Op {
		case OpDecoder:
			b.maskedLogits = result
		case OpSpan:
			b.span = result
			b.inside(paddedTokens, 1, &b.start)
			b.inside(paddedTokens, 1, &b.finish)
		default:
			b.labelLogits = result
		}
	}
	if h := b.model.Head; h.Task == MultipleChoice {
		b.rightChoices = make([]int32, 0, b.limit.Size/h.Labels)
	}
	if b.model.Head.Task == TokenClassification {
		n := b.limit.rows(paddedTokens)
		b.tokenLabels, b.tokenWeights = make([]int32, 0, n), make([]float32, 0, n)
	}
}
