package bert

import "fmt"

// Forward runs the network over a micro-batch and returns its losses as sums. Without an objective there are no
// losses, and the batch needs no labels. When p.Train is set, Backward must follow with the same Device, Pass and
// batch.
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

// Run does one unit's pass. Losses come only from the forward pass of the heads, and only with an objective.
func (n *Network) Run(d Device, p *Pass, o *Objective, w Work) (l Losses) {
	u, heads := &n.units[w.Unit-n.first], w.Unit == n.model.Config.Units()-1
	if w.Backward {
		if heads && n.span != nil {
			n.joinSpan()
		}
		for _, o := range u.backward {
			o.backward(d, p)
		}
		return l
	}
	for _, o := range u.forward {
		o.forward(d, p)
	}
	if heads && n.span != nil {
		n.splitSpan()
	}
	if heads && o != nil {
		l = n.losses(d, p, o)
	}
	return l
}

// Load takes a micro-batch. The network reads the caller's memory until the backward pass is over. Load sets
// p.Sample, p.Size and p.Length.
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
	n.tokens.choose(p, b, n.model.Head, n.model.Config.AttentionMask)
	s.tokens, s.keys = len(n.tokens.computed), n.tokens.keys
	s.readTokens = n.read.choose(p, b, n.model.Head)
	n.shape(s)
	n.batch = b
	p.Sample, p.Size, p.Length = b.Sample, b.Size, b.Length
	for _, u := range n.units {
		for _, o := range u.forward {
			o.load(n, b)
		}
	}
	return nil
}

// losses computes the task's losses from its outputs. In training it leaves the gradients of the outputs in their
// place.
func (n *Network) losses(d Device, p *Pass, o *Objective) (l Losses) {
	b, head := n.batch, n.model.Head
	switch {
	case head.Task == Pretraining:
		l.MaskedLM = n.classify(d, p, OpLoss, n.maskedLogits.values, b.MaskedLMIDs, b.MaskedLMWeights, o.perMasked())
		l.NextSentence = n.classify(d, p, OpNextSentence, n.labelLogits.values, b.NextSentenceLabels, b.NextSentenceWeights, o.perSequence())
	case head.Task == QuestionAnswering:
		l.Start = n.classify(d, p, OpSpan, n.start, b.StartPositions, nil, o.perSequence()/2)
		l.End = n.classify(d, p, OpLoss, n.finish, b.EndPositions, nil, o.perSequence()/2)
	case head.Task == MultipleChoice:
		n.rightChoices = n.rightChoices[:0]
		for i, label := range b.Labels {
			if label == 1 {
				n.rightChoices = append(n.rightChoices, int32(i%head.Labels))
			}
		}
		questions := *p // a row of logits is a question, so random bits are keyed by question
		questions.Sample, questions.Size = p.Sample/head.Labels, p.Size/head.Labels
		l.Labels = n.classify(d, &questions, OpClassifier, n.labelLogits.values, n.rightChoices, nil, o.perSequence()*float64(head.Labels))
	case head.Labels == 1:
		l.Labels = d.SquaredError(p, &SquaredError{Site: Site{-1, OpClassifier}, Y: n.labelLogits.values, Targets: b.Targets,
			Coefficient: o.perSequence()})
	case head.Task == TokenClassification:
		n.tokenLabels, n.tokenWeights = n.tokenLabels[:0], n.tokenWeights[:0]
		for _, token := range n.tokens.computed {
			label, weight := b.Labels[token], float32(1)
			if label == Unlabelled {
				label, weight = 0, 0
			}
			n.tokenLabels, n.tokenWeights = append(n.tokenLabels, label), append(n.tokenWeights, weight)
		}
		l.Labels = d.CrossEntropy(p, &CrossEntropy{Site: Site{-1, OpClassifier}, Rows: len(n.tokenLabels), Classes: head.Labels,
			Tokens: n.tokensOf(AllTokens), Logits: n.labelLogits.values, Labels: n.tokenLabels, Weights: n.tokenWeights,
			Coefficient: o.perLabel()})
	default:
		l.Labels = n.classify(d, p, OpClassifier, n.labelLogits.values, b.Labels, nil, o.perSequence())
	}
	return l
}

// classify is the cross entropy with one label a row of logits. The operator keys the random bits that a Device may
// draw for the gradient.
func (n *Network) classify(d Device, p *Pass, op Op, logits []float32, labels []int32, weights []float32, coefficient float64) Loss {
	return d.CrossEntropy(p, &CrossEntropy{Site: Site{-1, op}, Rows: len(labels), Classes: len(logits) / len(labels),
		Logits: logits, Labels: labels, Weights: weights, Coefficient: coefficient})
}

// splitSpan copies the two columns of the span's logits apart, since each is a softmax over the tokens of a
// sequence. joinSpan copies their gradients back.
func (n *Network) splitSpan() {
	if n.model.Head.MaskPadding {
		for i := range n.start {
			n.start[i], n.finish[i] = PaddingLogit, PaddingLogit
		}
	}
	span := n.span.values
	for row, i := range n.tokens.computed {
		if !n.hidden(i) {
			n.start[i], n.finish[i] = span[2*row], span[2*row+1]
		}
	}
}

func (n *Network) joinSpan() {
	span := n.span.values
	for row, i := range n.tokens.computed {
		if n.hidden(i) {
			span[2*row], span[2*row+1] = 0, 0
			continue
		}
		span[2*row], span[2*row+1] = n.start[i], n.finish[i]
	}
}

// hidden reports whether the head has no logits for a token.
func (n *Network) hidden(token int32) bool {
	return n.model.Head.MaskPadding && n.batch.AttentionMask[token] == 0
}
