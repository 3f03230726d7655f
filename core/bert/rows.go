package bert

// Rows says what the rows of a result stand for.
type Rows uint8

// The rows. Those of one sequence of the micro-batch are next to each other.
const (
	AllTokens    Rows = iota // every token: B·S
	ReadTokens               // the tokens that the head reads, see Batch.ReadTokens
	FirstTokens              // the first token of each sequence: B·Q
	MaskedTokens             // the masked positions: B·P
)

// rows is the number of rows in a micro-batch.
func (s Shape) rows(r Rows) int {
	switch r {
	case ReadTokens:
		return s.readTokens
	case FirstTokens:
		return s.Size * s.Sequences
	case MaskedTokens:
		return s.Size * s.Predictions
	}
	return s.Size * s.Length
}

// ReadTokens returns the tokens that a head reads, as rows of the batch [B·(Q+P)]: for each row of the batch the
// first token of each sequence, then the masked positions. A token may occur more than once. For a head that reads
// all tokens it is nil.
func (b *Batch) ReadTokens(h Head) []int32 { return b.appendReadTokens(nil, h.Task) }

func (b *Batch) appendReadTokens(rows []int32, t Task) []int32 {
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

// readTokens are the read tokens of a micro-batch. In the last layer, no token depends on another except through
// keys and values, so a training pass computes the other operators there for the read tokens only: the loss does
// not depend on the others, whose gradients are 0. An evaluation computes all tokens, since hidden states are
// outputs.
type readTokens struct {
	tokens  []int32 // as rows of the batch; empty: all, in order
	places  []int32 // [B·S]: where a token first occurs in tokens
	ordered []int32 // [B·S]: 0, 1, 2 ...
}

func newReadTokens(tokens int) readTokens {
	r := readTokens{places: make([]int32, tokens), ordered: make([]int32, tokens)}
	for i := range r.ordered {
		r.ordered[i] = int32(i)
	}
	return r
}

// choose finds the tokens that a pass over a batch computes in the last layer, and returns their number.
func (r *readTokens) choose(p *Pass, b *Batch, t Task) int {
	all := b.Size * b.Length
	r.tokens = r.tokens[:0]
	if p.Train {
		r.tokens = b.appendReadTokens(r.tokens, t)
	}
	if len(r.tokens) >= all {
		r.tokens = r.tokens[:0]
	}
	for i := len(r.tokens) - 1; i >= 0; i-- {
		r.places[r.tokens[i]] = int32(i)
	}
	if len(r.tokens) == 0 {
		return all
	}
	return len(r.tokens)
}

// rows are the rows of the batch that n read tokens have.
func (r *readTokens) rows(n int) []int32 {
	if len(r.tokens) == 0 {
		return r.ordered[:n]
	}
	return r.tokens
}

// place is the row of a token among the read tokens.
func (r *readTokens) place(token int32) int32 {
	if len(r.tokens) == 0 {
		return token
	}
	return r.places[token]
}
