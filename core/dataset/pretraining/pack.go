package pretraining

import (
	"fmt"
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/internal/draw"
)

// packWindow is the number of sequences that are packed together.
const packWindow = 2048

// Packed deals the sequences of another source in rows of several sequences. It packs a window at a time, longest
// first, each sequence into the row that it fills best (best-fit decreasing, as compared by Krell et al. 2021,
// arXiv:2107.02027). It deals all rows of a window in random order before the next window, so that a step has
// sequences of every length.
type Packed struct {
	from     dataset.Source // deals one sequence at a time
	batch    int            // rows of a global batch
	perRow   int            // sequences of a row, at most
	limit    Settings       // of a row
	seed     uint64
	position dataset.Position // where the window begins in from, and how many of its rows are dealt
	rows     [][]*bert.Batch  // of the window; nil: not yet made
	after    dataset.Position // where the next window begins
}

var _ dataset.Source = (*Packed)(nil)

// PackedPredictions is the number of masked positions of a packed row: as many as one sequence has, and one more
// for each further sequence, because each rounds its own number up. Source: graphcore/examples v3.4.1,
// nlp/bert/pytorch/args.py.
func PackedPredictions(predictions, perRow int) int { return predictions + perRow - 1 }

// Pack returns a source of packed rows. The source under it deals batches of one sequence, made with the settings
// of single sequences.
func Pack(from dataset.Source, s Settings, batch, perRow int, seed uint64) (*Packed, error) {
	if batch < 1 || perRow < 2 {
		return nil, fmt.Errorf("pretraining: batches of %d rows of up to %d sequences, want at least 1 of 2", batch, perRow)
	}
	s.MaxPredictions = PackedPredictions(s.MaxPredictions, perRow)
	return &Packed{from: from, batch: batch, perRow: perRow, limit: s, seed: seed, position: from.Position()}, nil
}

// Position says where Next continues.
func (p *Packed) Position() dataset.Position { return p.position }

// Seek goes to a position. It costs a window of sequences.
func (p *Packed) Seek(to dataset.Position) error {
	window := to
	window.Row = 0
	if err := p.from.Seek(window); err != nil {
		return err
	}
	p.position, p.rows = window, nil
	if to.Row == 0 {
		return nil
	}
	if err := p.load(); err != nil {
		return err
	}
	if to.Row < 0 || to.Row > len(p.rows) {
		return fmt.Errorf("pretraining: position is at row %d of a window of %d: it is not from this data and these settings", to.Row,
			len(p.rows))
	}
	p.position.Row = to.Row
	return nil
}

// Next returns the next global batch.
func (p *Packed) Next() (*bert.Batch, error) {
	b := newBatch(p.batch, p.limit)
	b.Sequences = p.perRow
	b.PositionIDs = make([]int32, len(b.InputIDs))
	b.FirstPositions = make([]int32, p.batch*p.perRow)
	b.NextSentenceLabels = make([]int32, p.batch*p.perRow)
	b.NextSentenceWeights = make([]float32, p.batch*p.perRow)
	for i := range p.batch {
		if p.rows != nil && p.position.Row == len(p.rows) {
			p.position, p.rows = p.after, nil
		}
		if err := p.load(); err != nil {
			return nil, err
		}
		fillRow(b, i, p.rows[p.position.Row])
		p.position.Row++
	}
	return b, nil
}

// load packs the window of the position.
func (p *Packed) load() error {
	if p.rows != nil {
		return nil
	}
	sequences := make([]*bert.Batch, packWindow)
	for i := range sequences {
		b, err := p.from.Next()
		if err != nil {
			return err
		}
		sequences[i] = b
	}
	p.after = p.from.Position()
	p.rows = pack(sequences, p.perRow, p.limit)
	at := p.position
	r := draw.New(p.seed, draw.Packing, at.Epoch, at.Block<<16^at.Index)
	r.Shuffle(len(p.rows), func(i, j int) { p.rows[i], p.rows[j] = p.rows[j], p.rows[i] })
	return nil
}

// tokens and predictions of a batch of one sequence.
func tokens(b *bert.Batch) (n int) {
	for _, m := range b.AttentionMask {
		n += int(m)
	}
	return n
}

func predictions(b *bert.Batch) int { return int(b.MaskedWeight()) }

// pack puts all sequences into rows. Those of equal length keep their order.
func pack(sequences []*bert.Batch, perRow int, limit Settings) [][]*bert.Batch {
	type measured struct {
		*bert.Batch
		tokens, predictions int
	}
	sorted := make([]measured, len(sequences))
	for i, s := range sequences {
		sorted[i] = measured{s, tokens(s), predictions(s)}
	}
	slices.SortStableFunc(sorted, func(a, b measured) int { return b.tokens - a.tokens })
	var rows [][]*bert.Batch
	var room []struct{ tokens, predictions int }
	for _, s := range sorted {
		best := -1
		for i, r := range room {
			if len(rows[i]) < perRow && r.tokens >= s.tokens && r.predictions >= s.predictions && (best < 0 || r.tokens < room[best].tokens) {
				best = i
			}
		}
		if best < 0 {
			best = len(rows)
			rows = append(rows, nil)
			room = append(room, struct{ tokens, predictions int }{limit.MaxLength, limit.MaxPredictions})
		}
		rows[best] = append(rows[best], s.Batch)
		room[best].tokens -= s.tokens
		room[best].predictions -= s.predictions
	}
	return rows
}

// fillRow makes sequences the i-th row of the batch, one behind the other.
func fillRow(b *bert.Batch, i int, sequences []*bert.Batch) {
	at, masked := 0, i*b.Predictions
	for q, s := range sequences {
		n, m := tokens(s), predictions(s)
		to := i*b.Length + at
		copy(b.InputIDs[to:], s.InputIDs[:n])
		copy(b.TokenTypeIDs[to:], s.TokenTypeIDs[:n])
		for j := range n {
			b.AttentionMask[to+j], b.PositionIDs[to+j] = int32(q+1), int32(j)
		}
		for k := range m {
			b.MaskedLMPositions[masked+k] = int32(at) + s.MaskedLMPositions[k]
		}
		copy(b.MaskedLMIDs[masked:], s.MaskedLMIDs[:m])
		copy(b.MaskedLMWeights[masked:], s.MaskedLMWeights[:m])
		place := i*b.Sequences + q
		b.FirstPositions[place], b.NextSentenceLabels[place], b.NextSentenceWeights[place] = int32(at), s.NextSentenceLabels[0], 1
		at += n
		masked += m
	}
}
