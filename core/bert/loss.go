package bert

// Loss is a sum over rows, so that the losses of micro-batches and replicas add up.
type Loss struct {
	Sum     float64 // Σ weight·loss
	Weight  float64 // Σ weight
	Correct float64 // Σ weight where the greatest logit is the label's
}

// Add adds another sum.
func (l *Loss) Add(m Loss) {
	l.Sum += m.Sum
	l.Weight += m.Weight
	l.Correct += m.Correct
}

// Mean is the mean loss, 0 over nothing.
func (l Loss) Mean() float64 {
	if l.Weight == 0 {
		return 0
	}
	return l.Sum / l.Weight
}

// Accuracy is the share of weight that was predicted right, 0 over nothing.
func (l Loss) Accuracy() float64 {
	if l.Weight == 0 {
		return 0
	}
	return l.Correct / l.Weight
}

// Losses are the parts of the loss of a task. The mean loss that is trained is MaskedLM + NextSentence for
// Pretraining, the mean of Start and End for QuestionAnswering, and Labels for all others. A row of Labels is a
// sequence, a question of MultipleChoice, or a labelled token of TokenClassification.
type Losses struct {
	MaskedLM, NextSentence Loss
	Start, End             Loss
	Labels                 Loss
}

// Add adds the sums of another micro-batch.
func (l *Losses) Add(m Losses) {
	l.MaskedLM.Add(m.MaskedLM)
	l.NextSentence.Add(m.NextSentence)
	l.Start.Add(m.Start)
	l.End.Add(m.End)
	l.Labels.Add(m.Labels)
}

// Total is the mean loss that is trained.
func (l Losses) Total() float64 {
	return l.MaskedLM.Mean() + l.NextSentence.Mean() + (l.Start.Mean()+l.End.Mean())/2 + l.Labels.Mean()
}
