package backendtest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// TestPadding: what depends only on tokens that attention masks out and no head reads is not computed, and losses,
// gradients and outputs are those of the computation over all tokens. A mask value of -890 makes the emulator compute
// everything, although its exponential is 0, too; scores have the same number of digits beside it as beside -1000.
//
// Only sums over tokens differ, in the order of their terms. In FP32 the largest relative difference over 300 batches
// was 4.7e-7. Where sums are stored in a narrow format, a few round to the neighbour, 2^-8 (BF16) or 2^-11 away: 1.4e-4
// of the norm.
func TestPadding(t *testing.T) {
	for name, b := range builtin {
		info, err := b.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range info.Precisions {
			t.Run(name+":"+p.Name, func(t *testing.T) {
				limit := 1e-3
				if p.Name == "fp32" {
					limit = 2e-6
				}
				for seed := range uint64(40) {
					comparePadding(t, b, name, p.Name, limit, rand.New(rand.NewPCG(1, seed)))
				}
			})
		}
	}
}

var padded = bert.Config{
	VocabSize: 43, HiddenSize: 24, NumHiddenLayers: 2, NumAttentionHeads: 2, IntermediateSize: 40, HiddenAct: bert.GELU,
	MaxPositionEmbeddings: 20, TypeVocabSize: 2, InitializerRange: 0.2, LayerNormEps: 1e-12,
}

// comparePadding computes a random batch in both ways.
func comparePadding(t *testing.T, b backend.Backend, name, precision string, limit float64, r *rand.Rand) {
	t.Helper()
	heads := []bert.Head{{Task: bert.Pretraining}, {Task: bert.Pretraining},
		{Task: bert.QuestionAnswering}, {Task: bert.QuestionAnswering, MaskPadding: true},
		{Task: bert.Classification, Labels: 3}, {Task: bert.Classification, Labels: 1}, {Task: bert.MultipleChoice, Labels: 2},
		{Task: bert.TokenClassification, Labels: 3}}
	which := r.IntN(len(heads))
	p := backend.Program{Model: padded, Head: heads[which], Precision: precision, Seed: 3, Length: 16, MaxPredictions: 3, MicroBatch: 4,
		Accumulation: 1, Replicas: 1, Options: map[string]string{}}
	if which == 1 {
		p.SequencesPerPack = 3
	}
	batch, holes := paddedBatch(&p, r)
	p.Model.HiddenDropoutProb = 0.1
	if !holes { // probabilities have their place among those of the tokens that are seen
		p.Model.AttentionProbsDropoutProb = 0.1
	}
	switch {
	case name == "ipu":
		p.Options["attention_mask_value"] = "model"
		p.Options["stochastic_rounding"] = "false" // of partial sums, whose place depends on the shape of the product
	case strings.HasPrefix(precision, "fp16"):
		p.Options["init_scale"] = "256" // the first step has finite gradients
	}
	var sides [2]computed
	for i, mask := range []float64{-890, -1000} {
		p.Model.AttentionMask = mask
		sides[i] = compute(t, b, p, batch)
	}
	what := fmt.Sprintf("%s, mask %v", p.Head.Task, batch.AttentionMask)
	if a, b := sides[0].losses.Total(), sides[1].losses.Total(); !(math.Abs(a/b-1) <= limit) {
		t.Errorf("%s: loss %.9g, want %.9g", what, b, a)
	}
	for name, o := range sides[0].all {
		if e := difference(chosen(sides[1].all[name].Values), chosen(o.Values)); !(e <= limit) {
			t.Errorf("%s: output %s differs by %.2g", what, name, e)
		}
		if some := sides[1].some[name].Values; some != nil && !slices.Equal(some, sides[1].all[name].Values) {
			t.Errorf("%s: output %s is another where hidden states are not wanted", what, name)
		}
	}
	if e := difference(sides[1].grads, sides[0].grads); !(e <= limit) {
		t.Errorf("%s: gradients differ by %.2g", what, e)
	}
}

// chosen are the values without the logits of padding, whose norm is greater than any other's.
func chosen(x []float32) []float32 {
	return slices.DeleteFunc(slices.Clone(x), func(v float32) bool { return v == bert.PaddingLogit })
}

func difference(x, y []float32) float64 {
	want := make([]float64, len(y))
	for i, v := range y {
		want[i] = float64(v)
	}
	return agreement.RelError(x, want)
}

// computed is a step's gradients and losses, and the outputs of an evaluation: all, and those of the heads.
type computed struct {
	grads     []float32
	losses    bert.Losses
	all, some backend.Outputs
}

func compute(t *testing.T, b backend.Backend, p backend.Program, batch *bert.Batch) (c computed) {
	t.Helper()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	bert.Initialize(p.Model, l, m.Params, 1)
	s, err := b.Open(t.Context(), p, m)
	if err == nil {
		err = s.Commit(t.Context(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	one := func(yield func(*bert.Batch, error) bool) { yield(batch, nil) }
	step := backend.Step{Step: 1, Sequences: batch.Size, MaskedWeight: batch.MaskedWeight(), NextSentenceWeight: batch.NextSentenceWeight()}
	if p.Head.Task == bert.TokenClassification {
		step.LabelWeight = batch.LabelWeight()
	}
	r, err := s.Step(t.Context(), step, one)
	if err != nil {
		t.Fatal(err)
	}
	c.grads, c.losses = m.Grads, r.Losses
	names := bert.OutputNames(p.Model, p.Head)
	heads := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return bert.Wants(p.Model, p.Head, []string{name}) == bert.WantAll
	})
	for _, e := range []struct {
		names   []string
		outputs *backend.Outputs
	}{{names, &c.all}, {heads, &c.some}} {
		if _, err := s.Evaluate(t.Context(), backend.Evaluation{Outputs: e.names}, one, func(o backend.Outputs) error {
			*e.outputs = o
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// paddedBatch is a batch with a random mask: sequences without padding, with padding at the end, with padding
// anywhere, and with nothing else. holes says that there is padding before tokens.
func paddedBatch(p *backend.Program, r *rand.Rand) (b *bert.Batch, holes bool) {
	size, length := p.MicroBatch, p.Length
	ids := func(n, limit int) []int32 {
		values := make([]int32, n)
		for i := range values {
			values[i] = int32(r.IntN(limit))
		}
		return values
	}
	n := size * length
	b = &bert.Batch{Size: size, Length: length, InputIDs: ids(n, p.Model.VocabSize), TokenTypeIDs: ids(n, 2), AttentionMask: make([]int32, n)}
	for i := range size {
		row := b.AttentionMask[i*length : (i+1)*length]
		switch kind, end := r.IntN(5), 1+r.IntN(length); kind {
		case 0, 1, 2:
			for j := range row {
				if j < end || kind == 0 {
					row[j] = int32(1 + j*p.SequencesPerPack/(length+1))
				}
			}
		case 3:
			holes = true
			for j := range row {
				row[j] = int32(r.IntN(2 + max(0, p.SequencesPerPack-1)))
			}
		}
	}
	perRow := max(1, p.SequencesPerPack)
	b.Predictions, b.MaskedLMPositions = p.MaxPredictions, ids(size*p.MaxPredictions, length) // also of padding
	b.MaskedLMIDs, b.NextSentenceLabels = ids(size*p.MaxPredictions, p.Model.VocabSize), ids(size*perRow, 2)
	for range b.MaskedLMIDs {
		b.MaskedLMWeights = append(b.MaskedLMWeights, float32(1+r.IntN(2)))
	}
	b.StartPositions, b.EndPositions, b.Labels = ids(size, length), ids(size, length), ids(size, max(1, p.Head.Labels))
	b.Targets = []float32{1, -1, 0, 2}
	if p.Head.Task == bert.MultipleChoice {
		b.Labels = []int32{1, 0, 0, 1}
	}
	if p.Head.Task == bert.TokenClassification {
		b.Labels = ids(n, 3*p.Head.Labels)
		for i, l := range b.Labels {
			if int(l) >= p.Head.Labels || b.AttentionMask[i] == 0 {
				b.Labels[i] = bert.Unlabelled
			}
		}
	}
	if p.SequencesPerPack > 1 {
		b.Sequences, b.PositionIDs, b.FirstPositions = perRow, ids(n, p.Model.MaxPositionEmbeddings), ids(size*perRow, length)
		for range b.FirstPositions {
			b.NextSentenceWeights = append(b.NextSentenceWeights, float32(r.IntN(2)))
		}
		b.NextSentenceWeights[0] = 1
	}
	return b, holes
}
