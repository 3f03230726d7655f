package emulator_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// TestPacking: sequences packed into rows have the losses and gradients of sequences in rows of their own, but for the
// order of FP32 sums.
func TestPacking(t *testing.T) {
	loose, tight, packed := packs(t)
	want := loose.run(t, emulator.New(emulator.Policy{}), loose.batch)
	got := tight.run(t, emulator.New(emulator.Policy{}), packed)
	if packed.NextSentenceWeight() != 5 || got.NextSentence.Weight != 5 ||
		got.MaskedLM.Weight != want.MaskedLM.Weight || got.MaskedLM.Correct != want.MaskedLM.Correct {
		t.Errorf("packed losses are %+v, want the weights of %+v", got, want)
	}
	for name, l := range map[string][2]float64{
		"masked LM": {got.MaskedLM.Mean(), want.MaskedLM.Mean()}, "next sentence": {got.NextSentence.Mean(), want.NextSentence.Mean()},
	} {
		if math.Abs(l[0]/l[1]-1) > 1e-6 {
			t.Errorf("%s loss %.9g, unpacked %.9g", name, l[0], l[1])
		}
	}
	if e := relative(tight.grads, loose.grads); e > 2e-6 {
		t.Errorf("gradients of packed rows differ by %.2g", e)
	}
}

// Rows of 20 tokens with up to three sequences.
const packedRows, perRow = 2, 3

// packs makes five sequences, one a row in loose and packed into two rows in tight, over the same parameters.
func packs(t *testing.T) (loose, tight *bench, packed *bert.Batch) {
	t.Helper()
	const rows = packedRows
	c := small
	c.HiddenDropoutProb, c.AttentionProbsDropoutProb = 0, 0
	lengths := [rows][]int{{9, 4, 5}, {11, 7}}
	loose = newBench(t, c, bert.Pretraining, 5)
	b := loose.batch
	b.AttentionMask = make([]int32, len(b.InputIDs))
	packed = &bert.Batch{Size: rows, Length: 20, Predictions: 9, Sequences: perRow,
		InputIDs: make([]int32, 40), TokenTypeIDs: make([]int32, 40), AttentionMask: make([]int32, 40),
		PositionIDs: make([]int32, 40), MaskedLMPositions: make([]int32, rows*9), MaskedLMIDs: make([]int32, rows*9),
		MaskedLMWeights: make([]float32, rows*9), FirstPositions: make([]int32, rows*perRow),
		NextSentenceLabels: make([]int32, rows*perRow), NextSentenceWeights: make([]float32, rows*perRow)}
	i := 0 // sequence
	for row, ls := range lengths {
		at := 0
		for q, length := range ls {
			for j := range length {
				b.AttentionMask[i*20+j] = 1
				to := row*20 + at + j
				packed.InputIDs[to], packed.TokenTypeIDs[to] = b.InputIDs[i*20+j], b.TokenTypeIDs[i*20+j]
				packed.AttentionMask[to], packed.PositionIDs[to] = int32(q+1), int32(j)
			}
			for k := range 3 {
				b.MaskedLMPositions[i*3+k] %= int32(length)
				to := row*9 + q*3 + k
				packed.MaskedLMPositions[to] = int32(at) + b.MaskedLMPositions[i*3+k]
				packed.MaskedLMIDs[to] = b.MaskedLMIDs[i*3+k]
				packed.MaskedLMWeights[to] = b.MaskedLMWeights[i*3+k]
			}
			packed.FirstPositions[row*perRow+q] = int32(at)
			packed.NextSentenceLabels[row*perRow+q], packed.NextSentenceWeights[row*perRow+q] = b.NextSentenceLabels[i], 1
			at += length
			i++
		}
	}
	tight = newBench(t, c, bert.Pretraining, 1)
	var err error
	limit := bert.Shape{Size: rows, Length: 20, Predictions: 9, Sequences: perRow}
	if tight.network, err = bert.NewNetwork(tight.model, tight.params, tight.grads, limit); err != nil {
		t.Fatal(err)
	}
	tight.objective = bert.Objective{Scale: 1, Sequences: packed.NextSentenceWeight(), MaskedWeight: packed.MaskedWeight()}
	return loose, tight, packed
}

// TestPackedProgram: packed rows have the same gradients on two devices as on one, and their weights are checked.
func TestPackedProgram(t *testing.T) {
	_, tight, packed := packs(t)
	const rows = packedRows
	var first []float32
	two := cut(bert.RecomputeStage, emulator.Sequential, []int{0, 1}, 3, 6)
	for _, plan := range []emulator.Plan{{}, two} {
		p := backend.Program{
			Model: tight.model.Config, Head: tight.model.Head, Seed: 3, Length: 20, MaxPredictions: 9, SequencesPerPack: perRow,
			MicroBatch: 1, Accumulation: rows, Replicas: 1,
		}
		m := backend.Memory{Layout: tight.model.Layout, Params: tight.params, Grads: tight.grads}
		s, err := emulator.NewTrainer(p, m, half(true), plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		batches := func(yield func(*bert.Batch, error) bool) {
			_ = yield(packed.Slice(0, 1), nil) && yield(packed.Slice(1, 2), nil)
		}
		step := backend.Step{
			Step: 1, Sequences: rows, MaskedWeight: packed.MaskedWeight(), NextSentenceWeight: packed.NextSentenceWeight(),
		}
		if _, err := s.Step(t.Context(), step, batches, 64); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = slices.Clone(tight.grads)
		} else if !slices.Equal(tight.grads, first) {
			t.Error("gradients of packed rows on two devices differ from those on one")
		}
		step.NextSentenceWeight--
		_, err = s.Step(t.Context(), step, batches, 64)
		if err == nil || !strings.Contains(err.Error(), "next sentence weight 4 was announced") {
			t.Errorf("a wrong weight: %v, want an error", err)
		}
	}
}

// TestPackedBatch: a packed batch that does not hold together is an error that says where.
func TestPackedBatch(t *testing.T) {
	_, tight, packed := packs(t)
	set := func(values *[]int32, i int, v int32) {
		*values = slices.Clone(*values)
		(*values)[i] = v
	}
	for name, spoil := range map[string]func(b *bert.Batch){
		"position_ids has 0 values":              func(b *bert.Batch) { b.PositionIDs = nil },
		"first_positions[1] is 20":               func(b *bert.Batch) { set(&b.FirstPositions, 1, 20) },
		"attention_mask[0] is 4":                 func(b *bert.Batch) { set(&b.AttentionMask, 0, 4) },
		"next_sentence_weights has 0":            func(b *bert.Batch) { b.NextSentenceWeights = nil },
		"want them only in packed rows":          func(b *bert.Batch) { b.Sequences = 0; b.AttentionMask = make([]int32, 40) },
		"next_sentence_labels has 2 values":      func(b *bert.Batch) { b.NextSentenceLabels = b.NextSentenceLabels[:2] },
		fmt.Sprintf("packs of %d sequences", 21): func(b *bert.Batch) { b.Sequences = 21 },
	} {
		bad := *packed
		spoil(&bad)
		err := bad.Validate(tight.model.Config, bert.Head{Task: bert.Pretraining}, true)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}
