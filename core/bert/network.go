package bert

import "fmt"

// Network is a Model, or a part of one, bound to memory: parameters, gradients, and the activations of one micro-batch, which are allocated once and used
// again for every micro-batch.
//
// Its passes come in units (see Config.Units) that a Device runs one by one: ForwardWork and BackwardWork say in which order, Run runs one. Forward and
// Backward run them all. A unit may be run again before its backward pass (recomputation): dropout draws from counters and gives the same masks.
type Network struct {
	model      *Model
	limit      Shape // the buffers hold this much
	first, end int   // units
	recompute  Recompute
	workspace  *Workspace
	batch      *Batch
	grads      []float32

	embed  Embed
	layers []encoderLayer // those that the part lacks stay empty
	in     []float32      // [B·S, H]: hidden states that enter and leave the part
	out    []float32

	// Heads; those that the task lacks stay empty.
	firstToken            Gather // the hidden state of each sequence's first token
	pooler                Linear
	masked                Gather // the hidden states at masked positions
	transform             Linear
	transformNorm         Norm
	decoder               Linear
	nextSentence          Linear
	span                  Linear
	start, finish         []float32 // [B, S]: the columns of span.Y
	classifier            Linear
	firstRows, maskedRows []int32
	rightChoices          []int32   // [B/choices]: MultipleChoice
	dhidden               []float32 // [B·S, H]: gradient that goes down from unit to unit
	wide                  []float32 // [B·S, max(I, 4H)]: gradients inside a layer
	dfirst, dpooled       []float32 // [B, H]
	dmasked, dtransformed []float32 // [B·P, H]
	read                  reading
	buffers               []buffer
	key                   workspaceKey // of the next buffer
	current               Shape
}

// encoderLayer is one transformer layer, post-norm.
type encoderLayer struct {
	query, key, value Linear
	attention         Attention
	attentionOutput   Linear // adds the layer's input
	attentionNorm     Norm
	intermediate      Linear
	output            Linear // adds attentionNorm.Y
	outputNorm        Norm
}

// per says what the rows of a buffer stand for.
type per uint8

const (
	perToken per = iota
	perSequence
	perMasked
	perRead // see reading
)

// buffer is an allocation and the slices that show the part of it that the current micro-batch uses.
type buffer struct {
	per    per
	width  int
	memory []float32
	views  []*[]float32
}

// NewNetwork returns a network for micro-batches of at most the extents of limit. grads is nil for a network that only predicts.
func NewNetwork(m *Model, params, grads []float32, limit Shape) (*Network, error) {
	return NewPart(m, params, grads, limit, Part{})
}

// NewPart returns the network of a part of the model. params and grads are those of the whole model; the part touches its own alone.
func NewPart(m *Model, params, grads []float32, limit Shape, p Part) (*Network, error) {
	if err := m.checkSections(params, grads); err != nil {
		return nil, err
	}
	if limit.Size < 1 || limit.Length < 1 || limit.Length > m.Config.MaxPositionEmbeddings {
		return nil, fmt.Errorf("bert: micro-batch of %d sequences of %d tokens, want at least 1 and 1 to %d", limit.Size, limit.Length, m.Config.MaxPositionEmbeddings)
	}
	limit.Sequences = max(1, limit.Sequences)
	limit.read = limit.rows(perToken)
	if m.Head.Task != Pretraining {
		limit.Predictions, limit.Sequences = 0, 1
	} else if limit.Predictions < 1 || limit.Predictions > limit.Length {
		return nil, fmt.Errorf("bert: %d predictions a sequence of %d tokens, want 1 to %d", limit.Predictions, limit.Length, limit.Length)
	}
	units := m.Config.Units()
	if p.First == 0 && p.End == 0 {
		p.End = units
	}
	if p.First < 0 || p.End <= p.First || p.End > units {
		return nil, fmt.Errorf("bert: part of units %d to %d, want at least one of %d", p.First, p.End, units)
	}
	n := &Network{model: m, limit: limit, first: p.First, end: p.End, recompute: p.Recompute, workspace: p.Workspace, grads: grads}
	if n.workspace == nil {
		n.workspace = &Workspace{}
	}
	n.read = newReading(limit.rows(perToken))
	n.build(&binder{layout: m.Layout, params: params, grads: grads})
	n.shape(limit)
	return n, nil
}

// allocate makes a buffer that shows itself in the given slices; it is kept from the forward pass to the backward pass.
func (n *Network) allocate(p per, width int, views ...*[]float32) {
	n.show(p, width, make([]float32, n.limit.rows(p)*width), views)
}

// inside makes a buffer inside a unit, which is kept when nothing is recomputed.
func (n *Network) inside(p per, width int, views ...*[]float32) {
	if n.recompute == RecomputeNone || n.recompute == "" {
		n.allocate(p, width, views...)
		return
	}
	n.scratch(p, width, views...)
}

// scratch makes a buffer in the workspace.
func (n *Network) scratch(p per, width int, views ...*[]float32) {
	n.show(p, width, n.workspace.take(n.key, n.limit.rows(p)*width), views)
	n.key.index++
}

func (n *Network) show(p per, width int, memory []float32, views []*[]float32) {
	n.buffers = append(n.buffers, buffer{per: p, width: width, memory: memory, views: views})
}

func (s Shape) rows(p per) int {
	switch p {
	case perSequence:
		return s.Size * s.Sequences
	case perMasked:
		return s.Size * s.Predictions
	case perRead:
		return s.read
	}
	return s.Size * s.Length
}

// build makes the units of the part, each reading from the buffer that the one before writes.
func (n *Network) build(b *binder) {
	c := &n.model.Config
	n.layers = make([]encoderLayer, c.NumHiddenLayers)
	var from []*[]float32 // where the unit before writes
	// enter makes the buffer between two units, which show it in from and in to.
	enter := func(u int, to ...*[]float32) {
		views := append(from, to...)
		switch rows := n.leaving(u - 1); {
		case u == n.first:
			n.allocate(rows, c.HiddenSize, append(views, &n.in)...)
		case n.recompute == RecomputeLayer && n.group(u) == u:
			n.allocate(rows, c.HiddenSize, views...)
		default:
			n.inside(rows, c.HiddenSize, views...)
		}
	}
	for u := n.first; u < n.end; u++ {
		n.key = workspaceKey{group: u}
		if n.recompute == RecomputeLayer && u != c.Units()-1 {
			n.key.group = (u + 1) % 2 // the layers share one workspace, and so do the embeddings
			if u == 0 {
				n.key.group = -2
			}
		}
		switch {
		case u == 0:
			from = n.buildEmbeddings(b)
		case u == c.Units()-1:
			enter(u, &n.firstToken.X, &n.masked.X, &n.span.X)
			n.buildHeads(b)
			from = nil
		case u%2 == 1:
			l := &n.layers[u/2]
			if n.leaving(u) == perRead {
				enter(u, &n.read.X, &l.key.X, &l.value.X)
				n.read.Site, n.read.Width = Site{Layer: u / 2, Op: OpGather}, c.HiddenSize
				n.inside(perRead, c.HiddenSize, &n.read.Y, &l.query.X, &l.attentionOutput.Residual)
			} else {
				enter(u, &l.query.X, &l.key.X, &l.value.X, &l.attentionOutput.Residual)
			}
			from = n.buildAttention(b, u/2)
		default:
			l := &n.layers[u/2-1]
			enter(u, &l.intermediate.X, &l.output.Residual)
			from = n.buildFeedForward(b, u/2-1)
		}
	}
	n.key = workspaceKey{group: -1}
	if n.end < c.Units() {
		n.inside(n.leaving(n.end-1), c.HiddenSize, append(from, &n.out)...)
	}
	if n.grads != nil {
		n.scratch(perToken, c.HiddenSize, &n.dhidden)
		n.scratch(perToken, max(c.IntermediateSize, 4*c.HiddenSize), &n.wide)
	}
}

// leaving says what the hidden states stand for that leave a unit.
func (n *Network) leaving(u int) per {
	if u >= n.model.Config.Units()-3 && n.model.Head.Task != QuestionAnswering {
		return perRead
	}
	return perToken
}

// buildEmbeddings returns where the embeddings write, as the builders of the other units do.
func (n *Network) buildEmbeddings(b *binder) (out []*[]float32) {
	c, e := &n.model.Config, &n.embed
	e.Site = Site{Layer: -1, Op: OpEmbeddings}
	e.Word, e.DWord = b.of("bert.embeddings.word_embeddings.weight")
	e.Position, e.DPosition = b.of("bert.embeddings.position_embeddings.weight")
	e.Type, e.DType = b.of("bert.embeddings.token_type_embeddings.weight")
	b.norm(&e.Norm, e.Site, "bert.embeddings.LayerNorm", c)
	e.Dropout = c.HiddenDropoutProb
	n.normBuffers(perToken, &e.Norm)
	n.inside(perToken, c.HiddenSize, &e.Norm.X)
	return []*[]float32{&e.Y, &e.Norm.Y}
}

func (n *Network) buildAttention(b *binder, i int) (out []*[]float32) {
	c, l := &n.model.Config, &n.layers[i]
	H := c.HiddenSize
	at := func(op Op) Site { return Site{Layer: i, Op: op} }
	name := fmt.Sprintf("bert.encoder.layer.%d.attention.", i)
	b.linear(&l.query, at(OpQuery), name+"self.query", H, H)
	b.linear(&l.key, at(OpKey), name+"self.key", H, H)
	b.linear(&l.value, at(OpValue), name+"self.value", H, H)
	b.linear(&l.attentionOutput, at(OpAttentionOutput), name+"output.dense", H, H)
	b.norm(&l.attentionNorm, at(OpAttentionNorm), name+"output.LayerNorm", c)
	l.attention = Attention{Site: at(OpAttention), Heads: c.NumAttentionHeads, Width: H, MaskValue: c.AttentionMask, Dropout: c.AttentionProbsDropoutProb}
	l.attentionOutput.Dropout = c.HiddenDropoutProb
	rows := n.leaving(1 + 2*i)
	n.inside(rows, H, &l.query.Y, &l.attention.Q)
	n.inside(perToken, H, &l.key.Y, &l.attention.K)
	n.inside(perToken, H, &l.value.Y, &l.attention.V)
	n.inside(rows, H, &l.attention.Context, &l.attentionOutput.X)
	n.inside(rows, H, &l.attentionOutput.Y, &l.attentionNorm.X)
	n.normBuffers(rows, &l.attentionNorm)
	return []*[]float32{&l.attentionNorm.Y}
}

func (n *Network) buildFeedForward(b *binder, i int) (out []*[]float32) {
	c, l := &n.model.Config, &n.layers[i]
	H, I := c.HiddenSize, c.IntermediateSize
	at := func(op Op) Site { return Site{Layer: i, Op: op} }
	name := fmt.Sprintf("bert.encoder.layer.%d.", i)
	b.linear(&l.intermediate, at(OpIntermediate), name+"intermediate.dense", I, H)
	b.linear(&l.output, at(OpOutput), name+"output.dense", H, I)
	b.norm(&l.outputNorm, at(OpOutputNorm), name+"output.LayerNorm", c)
	l.output.Dropout = c.HiddenDropoutProb
	l.intermediate.Activation = c.HiddenAct
	rows := n.leaving(2 + 2*i)
	n.inside(rows, I, &l.intermediate.Pre)
	n.inside(rows, I, &l.intermediate.Y, &l.output.X)
	n.inside(rows, H, &l.output.Y, &l.outputNorm.X)
	n.normBuffers(rows, &l.outputNorm)
	return []*[]float32{&l.outputNorm.Y}
}

func (n *Network) normBuffers(p per, op *Norm) {
	n.inside(p, 1, &op.Mean)
	n.inside(p, 1, &op.RStd)
}

func (n *Network) buildHeads(b *binder) {
	c := &n.model.Config
	H := c.HiddenSize
	at := func(op Op) Site { return Site{Layer: -1, Op: op} }
	if task := n.model.Head.Task; task != QuestionAnswering {
		n.firstRows = make([]int32, n.limit.rows(perSequence))
		n.firstToken.Site, n.firstToken.Width = at(OpGather), H
		b.linear(&n.pooler, at(OpPooler), "bert.pooler.dense", H, H)
		n.pooler.Activation = Tanh
		n.inside(perSequence, H, &n.firstToken.Y, &n.pooler.X)
		n.inside(perSequence, H, &n.pooler.Pre)
		n.inside(perSequence, H, &n.pooler.Y, &n.nextSentence.X, &n.classifier.X)
		n.inside(perSequence, H, &n.dfirst)
		n.inside(perSequence, H, &n.dpooled)
	}
	switch n.model.Head.Task {
	case Pretraining:
		V := c.VocabSize
		n.maskedRows = make([]int32, n.limit.rows(perMasked))
		n.masked.Site, n.masked.Width = at(OpGather), H
		b.linear(&n.transform, at(OpTransform), "cls.predictions.transform.dense", H, H)
		n.transform.Activation = c.HiddenAct
		b.norm(&n.transformNorm, at(OpTransformNorm), "cls.predictions.transform.LayerNorm", c)
		n.decoder = Linear{Site: at(OpDecoder), Out: V, In: H}
		n.decoder.W, n.decoder.DW = b.of("bert.embeddings.word_embeddings.weight")
		n.decoder.B, n.decoder.DB = b.of("cls.predictions.bias")
		b.linear(&n.nextSentence, at(OpNextSentence), "cls.seq_relationship", 2, H)
		n.inside(perMasked, H, &n.masked.Y, &n.transform.X)
		n.inside(perMasked, H, &n.transform.Pre)
		n.inside(perMasked, H, &n.transform.Y, &n.transformNorm.X)
		n.inside(perMasked, H, &n.transformNorm.Y, &n.decoder.X)
		n.normBuffers(perMasked, &n.transformNorm)
		n.inside(perMasked, V, &n.decoder.Y)
		n.inside(perSequence, 2, &n.nextSentence.Y)
		n.inside(perMasked, H, &n.dmasked)
		n.inside(perMasked, H, &n.dtransformed)
	case QuestionAnswering:
		b.linear(&n.span, at(OpSpan), "qa_outputs", 2, H)
		n.inside(perToken, 2, &n.span.Y)
		n.inside(perToken, 1, &n.start)
		n.inside(perToken, 1, &n.finish)
	case Classification:
		b.linear(&n.classifier, at(OpClassifier), "classifier", n.model.Head.Labels, H)
		n.pooler.Dropout = c.HiddenDropoutProb
		n.inside(perSequence, n.model.Head.Labels, &n.classifier.Y)
	case MultipleChoice:
		b.linear(&n.classifier, at(OpClassifier), "classifier", 1, H)
		n.pooler.Dropout = c.HiddenDropoutProb
		n.inside(perSequence, 1, &n.classifier.Y)
		n.rightChoices = make([]int32, 0, n.limit.Size/n.model.Head.Labels)
	}
}

// shape makes all buffers show the rows of a micro-batch.
func (n *Network) shape(s Shape) {
	if s == n.current {
		return
	}
	n.current = s
	for _, b := range n.buffers {
		for _, v := range b.views {
			*v = b.memory[:s.rows(b.per)*b.width]
		}
	}
	tokens, sequences, masked := s.rows(perToken), s.rows(perSequence), s.rows(perMasked)
	n.embed.Norm.Rows = tokens
	for i := range n.layers {
		l := &n.layers[i]
		l.key.Rows, l.value.Rows = tokens, tokens
		l.attention.Size, l.attention.Length = s.Size, s.Length
		rows := s.rows(n.leaving(1 + 2*i))
		for _, op := range [...]*Linear{&l.query, &l.attentionOutput, &l.intermediate, &l.output} {
			op.Rows = rows
		}
		l.attentionNorm.Rows, l.outputNorm.Rows = rows, rows
	}
	n.span.Rows = tokens
	n.pooler.Rows, n.nextSentence.Rows, n.classifier.Rows = sequences, sequences, sequences
	n.transform.Rows, n.transformNorm.Rows, n.decoder.Rows = masked, masked, masked
}
