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
	atLeast  map[string]float64
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
	t.atLeast = textFloors(t.heldOut)
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
func (t *textSet) floors() map[string]float64      { return t.atLeast }

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
	m["unigram_loss"] = t.atLeast["masked_lm_loss"]
	return m, nil
}

// textFloors are what a model that ignores its input gets: it predicts every masked token from the frequencies of the
// masked tokens, and every next sentence from those of the labels. Metrics of what is not there have no floor.
func textFloors(batches []*bert.Batch) map[string]float64 {
	tokens, pairs := frequencies{}, frequencies{}
	for _, b := range batches {
		for i, id := range b.MaskedLMIDs {
			tokens.add(id, b.MaskedLMWeights[i])
		}
		for i, label := range b.NextSentenceLabels {
			w := float32(1)
			if b.NextSentenceWeights != nil {
				w = b.NextSentenceWeights[i]
			}
			pairs.add(label, w)
		}
	}
	floors := map[string]float64{}
	for name, f := range map[string]frequencies{"masked_lm": tokens, "next_sentence": pairs} {
		if len(f) > 0 {
			floors[name+"_loss"], floors[name+"_accuracy"] = f.entropy(), 100*f.greatest()
		}
	}
	if len(floors) > 0 {
		floors["loss"] = tokens.entropy() + pairs.entropy()
	}
	return floors
}

// frequencies count how much of each value there is.
type frequencies map[int32]float64

func (f frequencies) add(value int32, weight float32) {
	if weight > 0 {
		f[value] += float64(weight)
	}
}

// shares of the values are in ascending order, for sums that do not depend on the order of a map.
func (f frequencies) shares() []float64 {
	shares := slices.Sorted(maps.Values(f))
	sum := 0.0
	for _, n := range shares {
		sum += n
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// entropy is the cross-entropy in nats of predicting each value from the shares of all.
func (f frequencies) entropy() float64 {
	h := 0.0
	for _, share := range f.shares() {
		h -= share * math.Log(share)
	}
	return h
}

// greatest is the share of the most frequent value.
func (f frequencies) greatest() float64 {
	shares := f.shares()
	return shares[len(shares)-1]
}
