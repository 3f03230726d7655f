package train

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/recipe"
)

// textSet is the data of masked language modelling and next sentence prediction.
type textSet struct {
	training dataset.Source
	known    int           // sequences in an epoch; 0: unknown
	heldOut  []*bert.Batch // to evaluate on
	unigram  float64       // loss, see unigramLoss
}

// textSource is a source over text, or over data prepared from it.
type textSource interface {
	dataset.Source
	Evaluation(sequences, batch int) ([]*bert.Batch, error)
}

func (d *Data) openText(r *recipe.Recipe, p *recipe.Phase, seed uint64) (*textSet, error) {
	source, err := d.textSource(r, p, seed)
	if err != nil {
		return nil, err
	}
	t := &textSet{training: source}
	if prepared, ok := source.(*pretraining.PreparedSource); ok {
		t.known = int(prepared.Sequences())
	}
	sequences := p.Evaluation.Sequences
	if sequences == 0 {
		sequences = math.MaxInt32
	}
	t.heldOut, err = source.Evaluation(sequences, p.Evaluation.Batch)
	t.unigram = unigramLoss(t.heldOut)
	if p.SequencesPerPack > 1 && err == nil {
		s := pretraining.Settings{MaxLength: p.Length, MaxPredictions: p.MaxPredictions}
		t.training, err = pretraining.Pack(source, s, p.GlobalBatch, p.SequencesPerPack, seed)
	}
	return t, err
}

// textSource opens the text of a phase, or the data that was prepared for its length.
func (d *Data) textSource(r *recipe.Recipe, p *recipe.Phase, seed uint64) (textSource, error) {
	m := p.Masking
	settings := pretraining.Settings{
		MaxLength: p.Length, MaxPredictions: p.MaxPredictions,
		ShortProb: m.ShortSeqProb, MaskedProb: m.MaskedLMProb, WholeWord: m.WholeWord,
	}
	dynamic := m.Kind == recipe.DynamicMasking
	batch := p.GlobalBatch
	if p.SequencesPerPack > 1 {
		batch = 1 // packing takes sequences one by one
	}
	if r.Data.Kind != recipe.PreparedData {
		o := pretraining.Options{Settings: settings, Batch: batch, Seed: seed, DupeFactor: m.DupeFactor, HeldOut: r.Data.HeldOut}
		if dynamic {
			o.DupeFactor = 0
		}
		return pretraining.NewSource(d.corpus, d.Tokenizer, o)
	}
	var lengths []string
	for _, prepared := range d.prepared {
		if prepared.Length == p.Length {
			return prepared.Source(d.Tokenizer, pretraining.Dealing{Settings: settings, Batch: batch, Seed: seed, Dynamic: dynamic})
		}
		lengths = append(lengths, fmt.Sprint(prepared.Length))
	}
	return nil, fmt.Errorf("the prepared data has sequences of %s tokens, want %d: harness data prepare --length %d",
		strings.Join(lengths, ", "), p.Length, p.Length)
}

func (t *textSet) sequences() int                  { return t.known }
func (t *textSet) source() (dataset.Source, error) { return t.training, nil }
func (t *textSet) notes() []string                 { return nil }

func (t *textSet) evaluated() int {
	n := 0
	for _, b := range t.heldOut {
		n += b.Size
	}
	return n
}

func (t *textSet) evaluate(
	ctx context.Context, s backend.Session, _ bool, _ func(string) string, _ string,
) (map[string]float64, error) {
	l, err := s.Evaluate(ctx, backend.Evaluation{Labels: true}, each(t.heldOut), func(backend.Outputs) error { return nil })
	if err != nil {
		return nil, err
	}
	m := lossMetrics(bert.Pretraining, l)
	m["unigram_loss"] = t.unigram
	return m, nil
}

// unigramLoss is the cross-entropy in nats of predicting every masked token from the frequencies of the masked
// tokens alone. A model that uses context is below it.
func unigramLoss(batches []*bert.Batch) float64 {
	count := map[int32]int{}
	n := 0
	for _, b := range batches {
		for i, id := range b.MaskedLMIDs {
			if b.MaskedLMWeights[i] > 0 {
				count[id]++
				n++
			}
		}
	}
	counts := slices.Sorted(maps.Values(count)) // for a sum in a fixed order
	loss := 0.0
	for _, c := range counts {
		f := float64(c) / float64(n)
		loss -= f * math.Log(f)
	}
	return loss
}
