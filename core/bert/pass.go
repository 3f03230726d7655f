package bert

import "fmt"

// Forward runs the network over a micro-batch and returns its losses, summed. Without an objective there are no losses and the batch needs no
// labels. When p.Train is set, Backward must follow with the same Device, Pass and batch.
func (n *Network) Forward(d Device, p *Pass, b *Batch, o *Objective) (Losses, error) {
	if err := n.Load(p, b, o != nil); err != nil {
		return Losses{}, err
	}
	var losses Losses
	for _, w := range n.ForwardWork() {
		losses = n.Run(d, p, o, w)
	}
	return losses, nil
}

// Backward sets every element of the gradients to the gradient of what Forward returned.
func (n *Network) Backward(d Device, p *Pass) {
	n.model.ClearPadding(n.grads)
	for _, w := range n.BackwardWork() {
		n.Run(d, p, nil, w)
	}
}

// Run does one unit's pass. Only the forward pass of the heads has losses, and an objective if there is one.
func (n *Network) Run(d Device, p *Pass, o *Objective, w Work) (l Losses) {
	i := (w.Unit - 1) / 2
	switch heads, attention := w.Unit == n.model.Config.Units()-1, w.Unit%2 == 1; {
	case w.Unit == 0 && w.Backward:
		n.embeddingsBackward(d, p)
	case w.Unit == 0:
		d.Embed(p, &n.embed)
	case heads && w.Backward:
		n.headsBackward(d, p)
	case heads:
		return n.heads(d, p, o)
	case attention && w.Backward:
		n.attentionBackward(d, p, &n.layers[i], n.leaving(w.Unit))
	case attention:
		l := &n.layers[i]
		if n.leaving(w.Unit) == perRead {
			d.Gather(p, &n.read.Gather)
		}
		d.Linear(p, &l.query)
		d.Linear(p, &l.key)
		d.Linear(p, &l.value)
		d.Attention(p, &l.attention)
		d.Linear(p, &l.attentionOutput)
		d.Norm(p, &l.attentionNorm)
	case w.Backward:
		n.feedForwardBackward(d, p, &n.layers[i])
	default:
		l := &n.layers[i]
		d.Linear(p, &l.intermediate)
		d.Linear(p, &l.output)
		d.Norm(p, &l.outputNorm)
	}
	return l
}

// Load takes a micro-batch, whose memory stays the caller's and is read until the backward pass is over. It sets p.Sample and p.Size.
func (n *Network) Load(p *Pass, b *Batch, labels bool) error {
	if p.Train && (n.grads == nil || !labels) {
		return fmt.Errorf("bert: a training pass needs gradients and an objective")
	}
	if err := b.Validate(n.model.Config, n.model.Head, labels); err != nil {
		return err
	}
	s := Shape{Size: b.Size, Length: b.Length, Sequences: b.perRow()}
	if n.model.Head.Task == Pretraining {
		s.Predictions = b.Predictions
	}
	if s.Size > n.limit.Size || s.Length > n.limit.Length || s.Predictions > n.limit.Predictions || s.Sequences > n.limit.Sequences {
		return fmt.Errorf("bert: micro-batch of %d rows, with %d tokens, %d predictions and %d sequences a row, want at most %d, %d, %d and %d",
			s.Size, s.Length, s.Predictions, s.Sequences, n.limit.Size, n.limit.Length, n.limit.Predictions, n.limit.Sequences)
	}
	s.read = n.read.choose(p, b, n.model.Head.Task)
	n.shape(s)
	n.batch = b
	p.Sample, p.Size = b.Sample, b.Size
	n.embed.IDs, n.embed.Types, n.embed.Positions = b.InputIDs, b.TokenTypeIDs, b.PositionIDs
	for i := range n.layers {
		n.layers[i].attention.Mask, n.layers[i].attention.Packed = b.AttentionMask, b.packed()
	}
	n.layers[len(n.layers)-1].attention.Queries = n.read.tokens
	if n.firstRows != nil {
		n.firstToken.Rows = n.firstRows[:s.rows(perSequence)]
		for i := range n.firstToken.Rows {
			n.firstToken.Rows[i] = n.read.place(b.firstToken(i))
		}
	}
	if n.maskedRows != nil {
		n.masked.Rows = n.maskedRows[:s.rows(perMasked)]
		for i := range n.masked.Rows {
			n.masked.Rows[i] = n.read.place(b.maskedToken(i))
		}
	}
	return nil
}

// heads computes the task's outputs and, given an objective, losses. In training it leaves the gradients of the outputs in their place.
func (n *Network) heads(d Device, p *Pass, o *Objective) (l Losses) {
	b := n.batch
	switch n.model.Head.Task {
	case Pretraining:
		d.Gather(p, &n.masked)
		d.Linear(p, &n.transform)
		d.Norm(p, &n.transformNorm)
		d.Linear(p, &n.decoder)
		n.pool(d, p)
		d.Linear(p, &n.nextSentence)
		if o != nil {
			l.MaskedLM = d.CrossEntropy(p, &CrossEntropy{Site: Site{-1, OpLoss}, Rows: n.decoder.Rows, Classes: n.decoder.Out,
				Logits: n.decoder.Y, Labels: b.MaskedLMIDs, Weights: b.MaskedLMWeights, Coefficient: o.perMasked()})
			l.NextSentence = n.classify(d, p, OpNextSentence, n.nextSentence.Y, b.NextSentenceLabels, b.NextSentenceWeights, o.perSequence())
		}
	case QuestionAnswering:
		d.Linear(p, &n.span)
		for i := range n.start {
			n.start[i], n.finish[i] = n.span.Y[2*i], n.span.Y[2*i+1]
		}
		if o != nil {
			l.Start = n.classify(d, p, OpSpan, n.start, b.StartPositions, nil, o.perSequence()/2)
			l.End = n.classify(d, p, OpLoss, n.finish, b.EndPositions, nil, o.perSequence()/2)
		}
	case Classification:
		n.pool(d, p)
		d.Linear(p, &n.classifier)
		switch {
		case o == nil:
		case n.model.Head.Labels == 1:
			l.Labels = d.SquaredError(p, &SquaredError{Site: Site{-1, OpClassifier}, Y: n.classifier.Y, Targets: b.Targets, Coefficient: o.perSequence()})
		default:
			l.Labels = n.classify(d, p, OpClassifier, n.classifier.Y, b.Labels, nil, o.perSequence())
		}
	case MultipleChoice:
		n.pool(d, p)
		d.Linear(p, &n.classifier)
		if o != nil {
			choices := n.model.Head.Labels
			n.rightChoices = n.rightChoices[:0]
			for i, label := range b.Labels {
				if label == 1 {
					n.rightChoices = append(n.rightChoices, int32(i%choices))
				}
			}
			questions := *p // a row is a question, and so is what a Device draws for it
			questions.Sample, questions.Size = p.Sample/choices, p.Size/choices
			l.Labels = n.classify(d, &questions, OpClassifier, n.classifier.Y, n.rightChoices, nil, o.perSequence()*float64(choices))
		}
	}
	return l
}

func (n *Network) pool(d Device, p *Pass) {
	d.Gather(p, &n.firstToken)
	d.Linear(p, &n.pooler)
}

// classify is the loss of one label a sequence, or a question. The site keys what a Device may draw for the gradient of the logits.
func (n *Network) classify(d Device, p *Pass, op Op, logits []float32, labels []int32, weights []float32, coefficient float64) Loss {
	return d.CrossEntropy(p, &CrossEntropy{Site: Site{-1, op}, Rows: len(labels), Classes: len(logits) / len(labels),
		Logits: logits, Labels: labels, Weights: weights, Coefficient: coefficient})
}

func (n *Network) headsBackward(d Device, p *Pass) {
	dhidden := n.dhidden[:len(n.firstToken.X)]
	switch n.model.Head.Task {
	case Pretraining:
		clear(dhidden)
		d.LinearBackward(p, &n.decoder, n.decoder.Y, n.dmasked, false)
		d.NormBackward(p, &n.transformNorm, n.dmasked, n.dmasked)
		d.LinearBackward(p, &n.transform, n.dmasked, n.dtransformed, false)
		d.GatherBackward(p, &n.masked, n.dtransformed, dhidden)
		d.LinearBackward(p, &n.nextSentence, n.nextSentence.Y, n.dpooled, false)
		n.poolBackward(d, p, dhidden)
	case QuestionAnswering:
		for i := range n.start {
			n.span.Y[2*i], n.span.Y[2*i+1] = n.start[i], n.finish[i]
		}
		d.LinearBackward(p, &n.span, n.span.Y, dhidden, false)
	case Classification, MultipleChoice:
		clear(dhidden)
		d.LinearBackward(p, &n.classifier, n.classifier.Y, n.dpooled, false)
		n.poolBackward(d, p, dhidden)
	}
}

func (n *Network) poolBackward(d Device, p *Pass, dhidden []float32) {
	d.LinearBackward(p, &n.pooler, n.dpooled, n.dfirst, false)
	d.GatherBackward(p, &n.firstToken, n.dfirst, dhidden)
}

// feedForwardBackward takes the gradient of a layer's output to that of the feed-forward half's input.
func (n *Network) feedForwardBackward(d Device, p *Pass, l *encoderLayer) {
	dwide, dhidden := n.wide[:len(l.intermediate.Y)], n.dhidden[:len(l.outputNorm.Y)]
	d.NormBackward(p, &l.outputNorm, dhidden, dhidden)
	d.LinearBackward(p, &l.output, dhidden, dwide, false)
	d.LinearBackward(p, &l.intermediate, dwide, dhidden, true)
}

// attentionBackward takes it on to that of the layer's input.
func (n *Network) attentionBackward(d Device, p *Pass, l *encoderLayer, leaving per) {
	size := len(n.dhidden)
	dcontext, dq, dk, dv := n.wide[:len(l.attention.Context)], n.wide[size:size+len(l.query.Y)], n.wide[2*size:3*size], n.wide[3*size:4*size]
	dhidden := n.dhidden[:len(l.attentionNorm.Y)]
	d.NormBackward(p, &l.attentionNorm, dhidden, dhidden)
	d.LinearBackward(p, &l.attentionOutput, dhidden, dcontext, false)
	d.AttentionBackward(p, &l.attention, dcontext, dq, dk, dv)
	d.LinearBackward(p, &l.query, dq, dhidden, true)
	if leaving == perRead {
		copy(dcontext, dhidden)
		d.Scatter(p, &n.read.Gather, dcontext, n.dhidden)
	}
	d.LinearBackward(p, &l.key, dk, n.dhidden, true)
	d.LinearBackward(p, &l.value, dv, n.dhidden, true)
}

func (n *Network) embeddingsBackward(d Device, p *Pass) {
	if n.model.Head.Task != Pretraining {
		clear(n.embed.DWord) // the decoder sets it where there is one
	}
	d.EmbedBackward(p, &n.embed, n.dhidden)
}
