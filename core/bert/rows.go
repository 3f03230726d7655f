package bert

// Rows says what the rows of a result stand for.
type Rows uint8

// The rows. Those of one sequence of the micro-batch are next to each other, but for what tokens says.
const (
	AllTokens    Rows = iota // every token: B·S, or those that a pass computes, see tokens
	ReadTokens               // the tokens that the head reads, see Batch.ReadTokens
	FirstTokens              // the first token of each sequence: B·Q
	MaskedTokens             // the masked positions: B·P
	keyTokens                // of AllTokens those that attention sees, which come first
	paddedTokens             // every token, computed or not: B·S
)

// rows is the number of rows in a micro-batch.
func (s Shape) rows(r Rows) int {
	switch {
	case r == ReadTokens:
		return s.readTokens
	case r == FirstTokens:
		return s.Size * s.Sequences
	case r == MaskedTokens:
		return s.Size * s.Predictions
	case r == AllTokens && s.tokens > 0:
		return s.tokens
	case r == keyTokens && s.tokens > 0:
		return s.keys
	}
	return s.Size * s.Length
}

// ReadTokens returns the tokens that a head reads, as rows of the batch [B·(Q+P)]: for each row of the batch the
// first token of each sequence, then the masked positions. A token may occur more than once. For a head that reads
// all tokens, or all that attention sees, it is nil.
func (b *Batch) ReadTokens(h Head) []int32 { return b.appendReadTokens(nil, h) }

func (b *Batch) appendReadTokens(rows []int32, h Head) []int32 {
	if h.readsEach() {
		return nil
	}
	for i := range b.Size {
		b.eachRead(i, h, func(token int32) { rows = append(rows, token) })
	}
	return rows
}

// readsEach reports whether the head reads each token that attention sees.
func (h Head) readsEach() bool { return h.Task == QuestionAnswering || h.Task == TokenClassification }

// readsAll reports whether it reads those that attention masks out as well. The softmax of a question's loss, and the
// list of the best logits that its answer comes from, are over all positions of its row, padding included, as in
// google-research/bert and transformers, unless MaskPadding is set.
func (h Head) readsAll() bool { return h.Task == QuestionAnswering && !h.MaskPadding }

// eachRead calls body for the tokens of a row of the batch that a head reads, unless it reads each.
func (b *Batch) eachRead(row int, h Head, body func(token int32)) {
	if h.readsEach() {
		return
	}
	first, masked := b.perRow(), b.Predictions
	if h.Task != Pretraining {
		masked = 0
	}
	for j := range first {
		body(b.firstToken(row*first + j))
	}
	for j := range masked {
		body(b.maskedToken(row*masked + j))
	}
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

// readTokens are the read tokens of a micro-batch. In the last layer, no token depends on another except through
// keys and values, so a training pass computes the other operators there for the read tokens only: the loss does
// not depend on the others, whose gradients are 0. An evaluation computes all tokens, since hidden states are
// outputs.
type readTokens struct {
	*tokens
	read    []int32 // as rows of the batch; empty: all that are computed, in order
	sources []int32 // their rows among the computed tokens
	places  []int32 // [B·S]: where a token first occurs in read
	ordered []int32 // [B·S]: 0, 1, 2 ...
}

func newReadTokens(t *tokens, limit int) readTokens {
	r := readTokens{tokens: t, sources: make([]int32, limit), places: make([]int32, limit), ordered: make([]int32, limit)}
	for i := range r.ordered {
		r.ordered[i] = int32(i)
	}
	return r
}

// choose finds the tokens that a pass over a batch computes in the last layer, and returns their number.
func (r *readTokens) choose(p *Pass, b *Batch, h Head) int {
	all := len(r.computed)
	r.read = r.read[:0]
	if p.Train {
		r.read = b.appendReadTokens(r.read, h)
	}
	if len(r.read) >= all {
		r.read = r.read[:0]
	}
	for i := len(r.read) - 1; i >= 0; i-- {
		r.places[r.read[i]] = int32(i)
		r.sources[i] = r.rows[r.read[i]]
	}
	if len(r.read) == 0 {
		return all
	}
	return len(r.read)
}

// from are the rows that n read tokens have among the computed tokens.
func (r *readTokens) from(n int) []int32 {
	if len(r.read) == 0 {
		return r.ordered[:n]
	}
	return r.sources[:n]
}

// place is the row of a token among the read tokens.
func (r *readTokens) place(token int32) int32 {
	if len(r.read) == 0 {
		return r.rows[token]
	}
	return r.places[token]
}
