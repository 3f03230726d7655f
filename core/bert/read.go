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

// Spread sets the rows of to that were read to those of from, and all others to 0. Of several that belong to one row the first counts.
func Spread(to, from []float32, read []int32, width int) {
	clear(to)
	for i := len(read) - 1; i >= 0; i-- {
		copy(to[int(read[i])*width:][:width], from[i*width:])
	}
}

// reading says for which tokens the last layer is computed, but for its keys and values: no token depends on another there. In training these are the tokens
// that the head reads: the loss does not depend on the others, whose gradients are 0. In evaluation they are all, since hidden states are outputs.
type reading struct {
	rows   []int32   // of the batch; empty: all of them, in order
	places []int32   // [B·S]: where a token is in rows, the first time
	input  []float32 // [B·S, H]: hidden states that enter the last layer
}

// choose takes the tokens that a pass over a batch computes, and returns how many they are.
func (r *reading) choose(p *Pass, b *Batch, t Task) int {
	r.rows = r.rows[:0]
	if p.Train {
		r.rows = b.appendRead(r.rows, t)
	}
	if tokens := b.Size * b.Length; len(r.rows) == 0 || len(r.rows) >= tokens {
		r.rows = r.rows[:0]
		return tokens
	}
	for i := len(r.rows) - 1; i >= 0; i-- {
		r.places[r.rows[i]] = int32(i)
	}
	return len(r.rows)
}

// place is the row of a token in the last layer.
func (r *reading) place(token int32) int32 {
	if len(r.rows) == 0 {
		return token
	}
	return r.places[token]
}

// gather copies the hidden states of the tokens that are computed.
func (r *reading) gather(to []float32, width int) {
	if len(r.rows) == 0 {
		copy(to, r.input)
	}
	for i, row := range r.rows {
		copy(to[i*width:(i+1)*width], r.input[int(row)*width:])
	}
}

// spread takes gradients of the computed tokens to those of all.
func (r *reading) spread(to, from []float32, width int) {
	if len(r.rows) == 0 {
		copy(to, from)
		return
	}
	Spread(to, from, r.rows, width)
}
