package bert

// Span is a range of rows; End is exclusive.
type Span struct{ Begin, End int }

// Len is the number of rows.
func (s Span) Len() int { return s.End - s.Begin }

// shut is the value that closes a token to attention: with it, or less, added to its score its probability is 0 in
// every format. e^-104 is 0 in FP32, and the scores of a query lie less than 790 apart unless training has failed.
const shut = -900

// tokens are the tokens of a micro-batch that a pass computes, a row each. Nothing depends on a token that attention
// masks out unless a head reads it, so it has no row. First come the tokens that attention sees, its keys, of all
// sequences in order; after them those that it masks out and a head reads. A sequence whose tokens are all masked
// out spreads its attention over all of them, so they are its keys.
type tokens struct {
	computed []int32   // [T]: the token of each row, as a row of the batch
	rows     []int32   // [B·S]: the row of each token; -1: none
	keys     int       // how many rows are keys
	spans    [][2]Span // [B]: rows of a sequence's keys and of its other tokens
	ordered  bool      // the rows are those of the batch
}

func newTokens(limit Shape) tokens {
	n := limit.Size * limit.Length
	return tokens{computed: make([]int32, 0, n), rows: make([]int32, n), spans: make([][2]Span, 0, limit.Size)}
}

// choose finds the tokens that a pass computes over a batch. mask is Config.AttentionMask.
func (t *tokens) choose(p *Pass, b *Batch, h Head, mask float64) {
	all := b.Size * b.Length
	t.computed, t.rows, t.spans = t.computed[:0], t.rows[:all], t.spans[:0]
	for i := range b.Size {
		begin := len(t.computed)
		t.see(b, i, mask > shut)
		t.spans = append(t.spans, [2]Span{{begin, len(t.computed)}, {}})
	}
	t.keys = len(t.computed)
	if t.ordered = t.keys == all; t.ordered {
		t.number()
		return
	}
	for i := range t.rows {
		t.rows[i] = -1
	}
	t.number()
	reads := h.readsAll() || !p.Train && p.Wanted == WantAll
	for i := range b.Size {
		begin := len(t.computed)
		if reads {
			for j := range b.Length {
				t.add(int32(i*b.Length + j))
			}
		} else {
			b.eachRead(i, h, t.add)
		}
		t.spans[i][1] = Span{begin, len(t.computed)}
	}
}

// see adds the tokens of a sequence that attention sees.
func (t *tokens) see(b *Batch, sequence int, all bool) {
	first := sequence * b.Length
	begin := len(t.computed)
	for i, number := range b.AttentionMask[first : first+b.Length] {
		if all || number != 0 {
			t.computed = append(t.computed, int32(first+i))
		}
	}
	if len(t.computed) == begin {
		t.see(b, sequence, true)
	}
}

// number gives the computed tokens their rows.
func (t *tokens) number() {
	for row, token := range t.computed {
		t.rows[token] = int32(row)
	}
}

// add gives a token a row unless it has one.
func (t *tokens) add(token int32) {
	if t.rows[token] < 0 {
		t.rows[token] = int32(len(t.computed))
		t.computed = append(t.computed, token)
	}
}

// of are the tokens of the rows of a buffer; nil where the rows are in the order of the batch, or stand for something
// else.
func (n *Network) tokensOf(r Rows) []int32 {
	switch {
	case n.tokens.ordered:
	case r == AllTokens, r == ReadTokens && len(n.read.read) == 0:
		return n.tokens.computed
	case r == keyTokens:
		return n.tokens.computed[:n.tokens.keys]
	}
	return nil
}

// spread returns the values of a buffer with a row for every token, 0 where it is not computed.
func (n *Network) spread(b *buffer) []float32 {
	tokens := n.tokensOf(b.rows)
	if tokens == nil {
		return b.values
	}
	if b.padded == nil {
		b.padded = make([]float32, n.limit.rows(paddedTokens)*b.width)
	}
	all := b.padded[:n.current.rows(paddedTokens)*b.width]
	clear(all)
	for row, token := range tokens {
		copy(all[int(token)*b.width:][:b.width], b.values[row*b.width:])
	}
	return all
}
