package bert

import "fmt"

// Forward runs the model over a micro-batch and returns its losses, summed. Without an objective there are no losses and the batch needs no
// labels. When p.Train is set, Backward must follow with the same Device, Pass and batch.
func (n *Network) Forward(d Device, p *Pass, b *Batch, o *Objective) (Losses, error) {
	if err := n.Load(p, b, o != nil); err != nil {
		return Losses{}, err
	}
	n.Embeddings(d, p)
	for i := range n.layers {
		n.Layer(d, p, i)
	}
	return n.Heads(d, p, o), nil
}

// Backward sets every element of the gradients to the gradient of what Forward returned.
func (n *Network) Backward(d Device, p *Pass) {
	n.HeadsBackward(d, p)
	for i := len(n.layers) - 1; i >= 0; i-- {
		n.LayerBackward(d, p, i)
	}
	n.EmbeddingsBackward(d, p)
}

// Load takes a micro-batch, whose memory stays the caller's and is read until the backward pass is over. It sets p.Sample and p.Size.
func (n *Network) Load(p *Pass, b *Batch, labels bool) error {
	if p.Train && (n.grads == nil || !labels) {
		return fmt.Errorf("bert: a training pass needs gradients and an objective")
	}
	if err := b.Validate(n.model.Config, n.model.Head, labels); err != nil {
		return err
	}
	s := Shape{Size: b.Size, Length: b.Length}
	if n.model.Head.Task == Pretraining {
		s.Predictions = b.Predictions
	}
	if s.Size > n.limit.Size || s.Length > n.limit.Length || s.Predictions > n.limit.Predictions {
		return fmt.Errorf("bert: micro-batch of %d sequences, %d tokens and %d predictions a sequence, want at most %d, %d and %d",
			s.Size, s.Length, s.Predictions, n.limit.Size, n.limit.Length, n.limit.Predictions)
	}
	n.shape(s)
	n.batch = b
	p.Sample, p.Size = b.Sample, b.Size
	n.embed.IDs, n.embed.Types = b.InputIDs, b.TokenTypeIDs
	for i := range n.layers {
		n.layers[i].attention.Mask = b.AttentionMask
	}
	if n.firstRows != nil {
		n.first.Rows = n.firstRows[:s.Size]
		for i := range n.first.Rows {
			n.first.Rows[i] = int32(i * s.Length)
		}
	}
	if n.maskedRows != nil {
		n.masked.Rows = n.maskedRows[:s.rows(perMasked)]
		for i, position := range b.MaskedLMPositions {
			n.masked.Rows[i] = int32(i/s.Predictions*s.Length) + position
		}
	}
	return nil
}

// Embeddings is the first unit of the forward pass.
func (n *Network) Embeddings(d Device, p *Pass) { d.Embed(p, &n.embed) }

// Layer is encoder layer i.
func (n *Network) Layer(d Device, p *Pass, i int) {
	l := &n.layers[i]
	d.Linear(p, &l.query)
	d.Linear(p, &l.key)
	d.Linear(p, &l.value)
	d.Attention(p, &l.attention)
	d.Linear(p, &l.attentionOutput)
	d.Norm(p, &l.attentionNorm)
	d.Linear(p, &l.intermediate)
	d.Linear(p, &l.output)
	d.Norm(p, &l.outputNorm)
}

// Heads is the last unit: the task's outputs and, given an objective, losses. In training it leaves the gradients of the outputs in their place.
func (n *Network) Heads(d Device, p *Pass, o *Objective) (l Losses) {
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
			l.NextSentence = n.classify(d, p, OpNextSentence, n.nextSentence.Y, b.NextSentenceLabels, o.perSequence())
		}
	case QuestionAnswering:
		d.Linear(p, &n.span)
		for i := range n.start {
			n.start[i], n.end[i] = n.span.Y[2*i], n.span.Y[2*i+1]
		}
		if o != nil {
			l.Start = n.classify(d, p, OpSpan, n.start, b.StartPositions, o.perSequence()/2)
			l.End = n.classify(d, p, OpLoss, n.end, b.EndPositions, o.perSequence()/2)
		}
	case Classification:
		n.pool(d, p)
		d.Linear(p, &n.classifier)
		switch {
		case o == nil:
		case n.model.Head.Labels == 1:
			l.Labels = d.SquaredError(p, &SquaredError{Site: Site{-1, OpClassifier}, Y: n.classifier.Y, Targets: b.Targets, Coefficient: o.perSequence()})
		default:
			l.Labels = n.classify(d, p, OpClassifier, n.classifier.Y, b.Labels, o.perSequence())
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
			l.Labels = n.classify(d, &questions, OpClassifier, n.classifier.Y, n.rightChoices, o.perSequence()*float64(choices))
		}
	}
	return l
}

func (n *Network) pool(d Device, p *Pass) {
	d.Gather(p, &n.first)
	d.Linear(p, &n.pooler)
}

// classify is the loss of one label a sequence, or a question. The site keys what a Device may draw for the gradient of the logits.
func (n *Network) classify(d Device, p *Pass, op Op, logits []float32, labels []int32, coefficient float64) Loss {
	return d.CrossEntropy(p, &CrossEntropy{Site: Site{-1, op}, Rows: len(labels), Classes: len(logits) / len(labels),
		Logits: logits, Labels: labels, Coefficient: coefficient})
}

// HeadsBackward is the first unit of the backward pass.
func (n *Network) HeadsBackward(d Device, p *Pass) {
	n.model.clearPadding(n.grads)
	switch n.model.Head.Task {
	case Pretraining:
		clear(n.dhidden)
		d.LinearBackward(p, &n.decoder, n.decoder.Y, n.dmasked, false)
		d.NormBackward(p, &n.transformNorm, n.dmasked, n.dmasked)
		d.LinearBackward(p, &n.transform, n.dmasked, n.dtransformed, false)
		d.GatherBackward(p, &n.masked, n.dtransformed, n.dhidden)
		d.LinearBackward(p, &n.nextSentence, n.nextSentence.Y, n.dpooled, false)
		n.poolBackward(d, p)
	case QuestionAnswering:
		clear(n.embed.DWord) // the decoder sets it where there is one
		for i := range n.start {
			n.span.Y[2*i], n.span.Y[2*i+1] = n.start[i], n.end[i]
		}
		d.LinearBackward(p, &n.span, n.span.Y, n.dhidden, false)
	case Classification, MultipleChoice:
		clear(n.embed.DWord)
		clear(n.dhidden)
		d.LinearBackward(p, &n.classifier, n.classifier.Y, n.dpooled, false)
		n.poolBackward(d, p)
	}
}

func (n *Network) poolBackward(d Device, p *Pass) {
	d.LinearBackward(p, &n.pooler, n.dpooled, n.dfirst, false)
	d.GatherBackward(p, &n.first, n.dfirst, n.dhidden)
}

// LayerBackward takes the gradient of the layer's output, which the unit before left, to that of its input.
func (n *Network) LayerBackward(d Device, p *Pass, i int) {
	l := &n.layers[i]
	size := len(n.dhidden)
	dwide := n.wide[:len(l.intermediate.Y)]
	d.NormBackward(p, &l.outputNorm, n.dhidden, n.dhidden)
	d.LinearBackward(p, &l.output, n.dhidden, dwide, false)
	d.LinearBackward(p, &l.intermediate, dwide, n.dhidden, true)

	dcontext, dq, dk, dv := n.wide[:size], n.wide[size:2*size], n.wide[2*size:3*size], n.wide[3*size:4*size]
	d.NormBackward(p, &l.attentionNorm, n.dhidden, n.dhidden)
	d.LinearBackward(p, &l.attentionOutput, n.dhidden, dcontext, false)
	d.AttentionBackward(p, &l.attention, dcontext, dq, dk, dv)
	d.LinearBackward(p, &l.query, dq, n.dhidden, true)
	d.LinearBackward(p, &l.key, dk, n.dhidden, true)
	d.LinearBackward(p, &l.value, dv, n.dhidden, true)
}

// EmbeddingsBackward is the last unit of the backward pass.
func (n *Network) EmbeddingsBackward(d Device, p *Pass) { d.EmbedBackward(p, &n.embed, n.dhidden) }
