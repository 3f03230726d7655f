package emulator_test

import (
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// TestReadTokens: a token that several heads read has one hidden state, with one dropout mask; evaluation after
// training computes all tokens.
func TestReadTokens(t *testing.T) {
	b := newBench(t, small, bert.Pretraining, 2)
	b.batch.MaskedLMPositions = []int32{7, 0, 7, 0, 4, 0}
	d := &gathers{Device: emulator.New(emulator.Policy{})}
	p := &bert.Pass{Seed: 1, Step: 1, Train: true}
	if _, err := b.network.Forward(d, p, b.batch, &b.objective); err != nil {
		t.Fatal(err)
	}
	b.network.Backward(d, p)
	first, masked := d.seen[1], d.seen[2]
	row := func(of []float32, i int) []float32 { return of[i*small.HiddenSize:][:small.HiddenSize] }
	for name, pair := range map[string][2][]float32{
		"twice the same position":       {row(masked, 0), row(masked, 2)},
		"first token and prediction":    {row(first, 0), row(masked, 1)},
		"first token, second sequence":  {row(first, 1), row(masked, 3)},
		"first token, third prediction": {row(first, 1), row(masked, 5)},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s: two hidden states", name)
		}
	}
	fresh := newBench(t, small, bert.Pretraining, 2)
	var hidden [2][]float32
	for i, n := range []*bert.Network{b.network, fresh.network} {
		if _, err := n.Forward(d.Device, &bert.Pass{}, b.batch, nil); err != nil {
			t.Fatal(err)
		}
		shape, values, _ := n.Output("sequence_output")
		if shape.Len() != len(values) {
			t.Fatalf("%d values of shape %v", len(values), shape)
		}
		hidden[i] = values
	}
	if !slices.Equal(hidden[0], hidden[1]) {
		t.Error("hidden states of an evaluation depend on the training pass before")
	}
}

// TestScatter: the first of equal rows counts, and missing rows are 0.
func TestScatter(t *testing.T) {
	all := []float32{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}
	op := &bert.Gather{Width: 2, Rows: []int32{2, 0, 2, 4, 4, 3}}
	emulator.New(emulator.Policy{}).Scatter(&bert.Pass{Size: 2}, op, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, all)
	if want := []float32{3, 4, 0, 0, 1, 2, 11, 12, 7, 8, 0, 0}; !slices.Equal(all, want) {
		t.Errorf("scattered to %g, want %g", all, want)
	}
}

// gathers keeps what is gathered: the hidden states of the read tokens, of first tokens, of masked ones.
type gathers struct {
	bert.Device
	seen [][]float32
}

func (g *gathers) Gather(p *bert.Pass, op *bert.Gather) {
	g.Device.Gather(p, op)
	g.seen = append(g.seen, slices.Clone(op.Y))
}
