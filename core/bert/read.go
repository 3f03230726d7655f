package bert

// Read are the tokens whose hidden states a head reads, as rows of the batch [B·(Q+P)]: of each row of the batch the first token of each sequence, then
// the masked positions. A token may be among them more than once. It is nil for a head that reads all tokens.
func (b *Batch) Read(h Head) []int32 { return b.appendRead(nil, h.Task) }

func (b *Batch) appendRead(rows []int32, t Task) []int32 {
	if t == QuestionAnswering {
		return nil
	}
	first, masked := b.perRow(), b.Predictions
	if t != Pretraining {
		masked = 0
	}
	for i := range b.Size {
		for j := range first {
			rows = append(rows, b.firstToken(i*first+j))
		}
		for j := range masked {
			rows = append(rows, b.maskedToken(i*masked+j))
		}
	}
	return rows
}

// firstToken is the row of the first token of a sequence.
func (b *Batch) firstToken(sequence int) int32 {
	row := int32(sequence / b.perRow() * b.Length)
	if b.packed() {
		row += b.FirstPositions[sequence]
	}
	return row
}

// maskedToken is the row of a masked position.
func (b *Batch) maskedToken(prediction int) int32 {
	return int32(prediction/b.Predictions*b.Length) + b.MaskedLMPositions[prediction]
}

// reading says for which tokens the last layer is computed, but for its keys and values: no token depends on another there. In training these are the tokens
// that the head reads: the loss does not depend on the others, whose gradients are 0. In evaluation they are all, since hidden states are outputs.
type reading struct {
	Gather          // of the hidden states that enter the last layer
	tokens  []int32 // that are read, as rows of the batch; empty: all, in order
	places  []int32 // [B·S]: where a token is in tokens, the first time
	ordered []int32 // [B·S]: 0, 1, 2 ...
}

func newReading(tokens int) reading {
	r := reading{places: make([]int32, tokens), ordered: make([]int32, tokens)}
	for i := range r.ordered {
		r.ordered[i] = int32(i)
	}
	return r
}

// choose takes the tokens that a pass over a batch computes, and returns how many they are.
func (r *reading) choose(p *Pass, b *Batch, t Task) int {
	r.tokens, r.Rows = r.tokens[:0], r.ordered[:b.Size*b.Length]
	if p.Train {
		r.tokens = b.appendRead(r.tokens, t)
	}
	if len(r.tokens) >= len(r.Rows) {
		r.tokens = r.tokens[:0]
	}
	if len(r.tokens) > 0 {
		r.Rows = r.tokens
	}
	for i := len(r.tokens) - 1; i >= 0; i-- {
		r.places[r.tokens[i]] = int32(i)
	}
	return len(r.Rows)
}

// place is the row of a token in the last layer.
func (r *reading) place(token int32) int32 {
	if len(r.tokens) == 0 {
		return token
	}
	return r.places[token]
}
