package bert

import "fmt"

// Network is a Model bound to memory: parameters, gradients, and the activations of one micro-batch, which are allocated once and used
// again for every micro-batch.
//
// Its passes come in units that can be placed apart, each with the Device that runs it:
//
//	Load, Embeddings, Layer(0), ..., Layer(n-1), Heads
//	HeadsBackward, LayerBackward(n-1), ..., LayerBackward(0), EmbeddingsBackward
//
// Forward and Backward run them all. What a layer needs of its input is a buffer of its own, so a layer may be run again from it before its
// backward pass (recomputation): dropout draws from counters and gives the same masks.
type Network struct {
	model *Model
	limit Shape // the buffers hold this much
	batch *Batch
	grads []float32

	embed  Embed
	layers []encoderLayer

	// Heads; those that the task lacks stay empty.
	first                 Gather // the hidden state of each sequence's first token
	pooler                Linear
	masked                Gather // the hidden states at masked positions
	transform             Linear
	transformNorm         Norm
	decoder               Linear
	nextSentence          Linear
	span                  Linear
	start, end            []float32 // [B, S]: the columns of span.Y
	classifier            Linear
	firstRows, maskedRows []int32
	rightChoices          []int32   // [B/choices]: MultipleChoice
	dhidden               []float32 // [B·S, H]: gradient that goes down from layer to layer
	wide                  []float32 // [B·S, max(I, 4H)]: gradients inside a layer
	dfirst, dpooled       []float32 // [B, H]
	dmasked, dtransformed []float32 // [B·P, H]
	buffers               []buffer
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
	if err := m.checkSections(params, grads); err != nil {
		return nil, err
	}
	if limit.Size < 1 || limit.Length < 1 || limit.Length > m.Config.MaxPositionEmbeddings {
		return nil, fmt.Errorf("bert: micro-batch of %d sequences of %d tokens, want at least 1 and 1 to %d", limit.Size, limit.Length, m.Config.MaxPositionEmbeddings)
	}
	if m.Head.Task != Pretraining {
		limit.Predictions = 0
	} else if limit.Predictions < 1 || limit.Predictions > limit.Length {
		return nil, fmt.Errorf("bert: %d predictions a sequence of %d tokens, want 1 to %d", limit.Predictions, limit.Length, limit.Length)
	}
	n := &Network{model: m, limit: limit, grads: grads}
	b := &binder{layout: m.Layout, params: params, grads: grads}
	n.buildEncoder(b)
	n.buildHeads(b)
	n.shape(limit)
	return n, nil
}

// allocate makes a buffer that shows itself in the given slices.
func (n *Network) allocate(p per, width int, views ...*[]float32) {
	n.buffers = append(n.buffers, buffer{per: p, width: width, memory: make([]float32, n.limit.rows(p)*width), views: views})
}

func (s Shape) rows(p per) int {
	switch p {
	case perSequence:
		return s.Size
	case perMasked:
		return s.Size * s.Predictions
	}
	return s.Size * s.Length
}

func (n *Network) buildEncoder(b *binder) {
	c := &n.model.Config
	H, I := c.HiddenSize, c.IntermediateSize
	e := &n.embed
	e.Site = Site{Layer: -1, Op: OpEmbeddings}
	e.Word, e.DWord = b.of("bert.embeddings.word_embeddings.weight")
	e.Position, e.DPosition = b.of("bert.embeddings.position_embeddings.weight")
	e.Type, e.DType = b.of("bert.embeddings.token_type_embeddings.weight")
	b.norm(&e.Norm, e.Site, "bert.embeddings.LayerNorm", c)
	e.Dropout = c.HiddenDropoutProb
	n.layers = make([]encoderLayer, c.NumHiddenLayers)
	n.normBuffers(perToken, &e.Norm)
	n.allocate(perToken, H, &e.Norm.X)
	input := []*[]float32{&e.Y, &e.Norm.Y}
	for i := range n.layers {
		l := &n.layers[i]
		at := func(op Op) Site { return Site{Layer: i, Op: op} }
		name := fmt.Sprintf("bert.encoder.layer.%d.", i)
		b.linear(&l.query, at(OpQuery), name+"attention.self.query", H, H)
		b.linear(&l.key, at(OpKey), name+"attention.self.key", H, H)
		b.linear(&l.value, at(OpValue), name+"attention.self.value", H, H)
		b.linear(&l.attentionOutput, at(OpAttentionOutput), name+"attention.output.dense", H, H)
		b.norm(&l.attentionNorm, at(OpAttentionNorm), name+"attention.output.LayerNorm", c)
		b.linear(&l.intermediate, at(OpIntermediate), name+"intermediate.dense", I, H)
		b.linear(&l.output, at(OpOutput), name+"output.dense", H, I)
		b.norm(&l.outputNorm, at(OpOutputNorm), name+"output.LayerNorm", c)
		l.attention = Attention{Site: at(OpAttention), Heads: c.NumAttentionHeads, Width: H, MaskValue: c.AttentionMask, Dropout: c.AttentionProbsDropoutProb}
		l.attentionOutput.Dropout, l.output.Dropout = c.HiddenDropoutProb, c.HiddenDropoutProb
		l.intermediate.Activation = c.HiddenAct

		n.allocate(perToken, H, append(input, &l.query.X, &l.key.X, &l.value.X, &l.attentionOutput.Residual)...)
		n.allocate(perToken, H, &l.query.Y, &l.attention.Q)
		n.allocate(perToken, H, &l.key.Y, &l.attention.K)
		n.allocate(perToken, H, &l.value.Y, &l.attention.V)
		n.allocate(perToken, H, &l.attention.Context, &l.attentionOutput.X)
		n.allocate(perToken, H, &l.attentionOutput.Y, &l.attentionNorm.X)
		n.allocate(perToken, H, &l.attentionNorm.Y, &l.intermediate.X, &l.output.Residual)
		n.allocate(perToken, I, &l.intermediate.Pre)
		n.allocate(perToken, I, &l.intermediate.Y, &l.output.X)
		n.allocate(perToken, H, &l.output.Y, &l.outputNorm.X)
		n.normBuffers(perToken, &l.attentionNorm)
		n.normBuffers(perToken, &l.outputNorm)
		input = []*[]float32{&l.outputNorm.Y}
	}
	n.allocate(perToken, H, append(input, &n.first.X, &n.masked.X, &n.span.X)...)
	if n.grads != nil {
		n.allocate(perToken, H, &n.dhidden)
		n.allocate(perToken, max(I, 4*H), &n.wide)
	}
}

func (n *Network) normBuffers(p per, op *Norm) {
	n.allocate(p, 1, &op.Mean)
	n.allocate(p, 1, &op.RStd)
}

func (n *Network) buildHeads(b *binder) {
	c := &n.model.Config
	H := c.HiddenSize
	at := func(op Op) Site { return Site{Layer: -1, Op: op} }
	if task := n.model.Head.Task; task != QuestionAnswering {
		n.firstRows = make([]int32, n.limit.Size)
		n.first.Site, n.first.Width = at(OpGather), H
		b.linear(&n.pooler, at(OpPooler), "bert.pooler.dense", H, H)
		n.pooler.Activation = Tanh
		n.allocate(perSequence, H, &n.first.Y, &n.pooler.X)
		n.allocate(perSequence, H, &n.pooler.Pre)
		n.allocate(perSequence, H, &n.pooler.Y, &n.nextSentence.X, &n.classifier.X)
		n.allocate(perSequence, H, &n.dfirst)
		n.allocate(perSequence, H, &n.dpooled)
	}
	switch n.model.Head.Task {
	case Pretraining:
		V := c.VocabSize
		n.maskedRows = make([]int32, n.limit.rows(perMasked))
		n.masked.Site, n.masked.Width = at(OpGather), H
		b.linear(&n.transform, at(OpTransform), "cls.predictions.transform.dense", H, H)
		n.transform.Activation = c.HiddenAct
		b.norm(&n.transformNorm, at(OpTransformNorm), "cls.predictions.transform.LayerNorm", c)
		n.decoder = Linear{Site: at(OpDecoder), Out: V, In: H, W: n.embed.Word, DW: n.embed.DWord}
		n.decoder.B, n.decoder.DB = b.of("cls.predictions.bias")
		b.linear(&n.nextSentence, at(OpNextSentence), "cls.seq_relationship", 2, H)
		n.allocate(perMasked, H, &n.masked.Y, &n.transform.X)
		n.allocate(perMasked, H, &n.transform.Pre)
		n.allocate(perMasked, H, &n.transform.Y, &n.transformNorm.X)
		n.allocate(perMasked, H, &n.transformNorm.Y, &n.decoder.X)
		n.normBuffers(perMasked, &n.transformNorm)
		n.allocate(perMasked, V, &n.decoder.Y)
		n.allocate(perSequence, 2, &n.nextSentence.Y)
		n.allocate(perMasked, H, &n.dmasked)
		n.allocate(perMasked, H, &n.dtransformed)
	case QuestionAnswering:
		b.linear(&n.span, at(OpSpan), "qa_outputs", 2, H)
		n.allocate(perToken, 2, &n.span.Y)
		n.allocate(perToken, 1, &n.start)
		n.allocate(perToken, 1, &n.end)
	case Classification:
		b.linear(&n.classifier, at(OpClassifier), "classifier", n.model.Head.Labels, H)
		n.pooler.Dropout = c.HiddenDropoutProb
		n.allocate(perSequence, n.model.Head.Labels, &n.classifier.Y)
	case MultipleChoice:
		b.linear(&n.classifier, at(OpClassifier), "classifier", 1, H)
		n.pooler.Dropout = c.HiddenDropoutProb
		n.allocate(perSequence, 1, &n.classifier.Y)
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
		for _, op := range [...]*Linear{&l.query, &l.key, &l.value, &l.attentionOutput, &l.intermediate, &l.output} {
			op.Rows = tokens
		}
		l.attentionNorm.Rows, l.outputNorm.Rows = tokens, tokens
		l.attention.Size, l.attention.Length = s.Size, s.Length
	}
	n.span.Rows = tokens
	n.pooler.Rows, n.nextSentence.Rows, n.classifier.Rows = sequences, sequences, sequences
	n.transform.Rows, n.transformNorm.Rows, n.decoder.Rows = masked, masked, masked
}
