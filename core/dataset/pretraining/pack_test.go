package pretraining

import (
	"fmt"
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
)

// counted deals sequences of lengths from 5 to 24 without end; the token behind [CLS] is the sequence's number.
type counted struct{ position dataset.Position }

func (c *counted) Position() dataset.Position { return c.position }

func (c *counted) Seek(p dataset.Position) error {
	c.position = p
	return nil
}

func (c *counted) Next() (*bert.Batch, error) {
	i := c.position.Index
	c.position.Index++
	length := 5 + 7*i%20
	s := Settings{MaxLength: 24, MaxPredictions: 4}
	b := newBatch(1, s)
	instance := Instance{InputIDs: make([]int32, length), FirstLength: 3, RandomNext: i%2 == 1}
	for j := range instance.InputIDs {
		instance.InputIDs[j] = int32(i + j)
	}
	for j := range 1 + length/8 {
		instance.MaskedLMPositions = append(instance.MaskedLMPositions, int32(j+1))
		instance.MaskedLMIDs = append(instance.MaskedLMIDs, int32(7*i+j))
	}
	fill(b, 0, &instance)
	return b, nil
}

// sequence describes a sequence of a batch, packed or not, with everything that belongs to it.
func sequence(b *bert.Batch, row, q int) string {
	number := int32(q + 1)
	first, length := -1, 0
	for j, m := range b.AttentionMask[row*b.Length : (row+1)*b.Length] {
		if m == number {
			if first < 0 {
				first = j
			}
			length++
		}
	}
	if length == 0 {
		return ""
	}
	at := row*b.Length + first
	positions := []int32{}
	if len(b.PositionIDs) > 0 {
		positions = b.PositionIDs[at : at+length]
	} else {
		for j := range length {
			positions = append(positions, int32(j))
		}
	}
	var masked []int32
	for k := row * b.Predictions; k < (row+1)*b.Predictions; k++ {
		if p := int(b.MaskedLMPositions[k]); b.MaskedLMWeights[k] == 1 && p >= first && p < first+length {
			masked = append(masked, int32(p-first), b.MaskedLMIDs[k])
		}
	}
	return fmt.Sprint(b.InputIDs[at:at+length], b.TokenTypeIDs[at:at+length], positions, masked,
		b.NextSentenceLabels[row*max(1, b.Sequences)+q])
}

// TestPack: every sequence of a window comes once, whole, in rows that keep all limits and are well filled; the
// rows of any position come again.
func TestPack(t *testing.T) {
	s := Settings{MaxLength: 24, MaxPredictions: 4}
	p, err := Pack(&counted{}, s, 1, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	c := &counted{}
	for range packWindow {
		b, _ := c.Next()
		want = append(want, sequence(b, 0, 0))
	}
	var filled, all int
	var batches []*bert.Batch
	var positions []dataset.Position
	for p.Position().Index == 0 && len(got) < packWindow {
		positions = append(positions, p.Position())
		b, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		config := bert.Defaults()
		if err := b.Validate(config, bert.Head{Task: bert.Pretraining}, true); err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
		for row := range b.Size {
			for q := range b.Sequences {
				text := sequence(b, row, q)
				if place := row*b.Sequences + q; (text != "") != (b.NextSentenceWeights[place] == 1) {
					t.Fatalf("row %d: sequence %d is %q with weight %g", row, q, text, b.NextSentenceWeights[place])
				} else if text != "" && b.PositionIDs[row*b.Length+int(b.FirstPositions[place])] != 0 {
					t.Fatalf("row %d: sequence %d does not begin where it is said to", row, q)
				}
				if text != "" {
					got = append(got, text)
				}
			}
		}
		for _, m := range b.AttentionMask {
			if m > 0 {
				filled++
			}
		}
		all += len(b.AttentionMask)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d sequences in rows are not the %d of the window", len(got), len(want))
	}
	if share := float64(filled) / float64(all); share < 0.9 {
		t.Errorf("rows are filled to %.0f%%, want 90%%", 100*share)
	}
	for _, i := range []int{len(positions) - 1, 0, 17} {
		q, err := Pack(&counted{}, s, 1, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Seek(positions[i]); err != nil {
			t.Fatal(err)
		}
		b, err := q.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.InputIDs, batches[i].InputIDs) || !slices.Equal(b.AttentionMask, batches[i].AttentionMask) {
			t.Errorf("batch %d comes otherwise after a seek to %+v", i, positions[i])
		}
	}
	if err := p.Seek(dataset.Position{Row: packWindow + 1}); err == nil {
		t.Error("a row beyond the window was found")
	}
	if _, err := Pack(&counted{}, s, 8, 1, 1); err == nil {
		t.Error("rows of one sequence were packed")
	}
}
