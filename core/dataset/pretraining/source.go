package pretraining

import (
	"fmt"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/internal/draw"
	"harness.invalid/core/spelling"
	"harness.invalid/core/wordpiece"
)

// Options are the settings of a Source.
type Options struct {
	Settings
	Batch int    // sequences of a global batch
	Seed  uint64 // of everything random

	// DupeFactor is the number of epochs with different segments and masks before the first ones repeat: masks are
	// static, as published, where the data is written dupe_factor times. 0 never repeats: masks are dynamic
	// (RoBERTa, Liu et al. 2019, arXiv:1907.11692, section 4.1).
	DupeFactor int
	// HeldOut is the share of documents withheld for evaluation, at least two documents unless it is 0. The seed
	// selects them.
	HeldOut float64

	// A block is the set of documents in memory at a time. Random next sentences come from the same block, and its
	// instances are shuffled.
	BlockDocuments int   // at most, or one more so that none is left alone; 0: 1024
	BlockBytes     int64 // at most, but never less than two documents; 0: 16 MiB
}

const (
	defaultBlockDocuments = 1024
	defaultBlockBytes     = 16 << 20
)

// Source deals a corpus block by block, endlessly. Each epoch uses every document once. With the duplicate d =
// epoch mod DupeFactor (d = epoch when masks are dynamic), the documents' order, their partition into blocks, and
// the instances of each block are functions of (seed, d); the order of the blocks and of the instances within a
// block are functions of (seed, epoch).
type Source struct {
	corpus    *Corpus
	tokenizer *wordpiece.Tokenizer
	maker     *maker
	options   Options
	training  []int32 // documents
	heldOut   []int32 // documents, in the order of evaluation

	position  dataset.Position
	blocks    [][]int32 // documents of each block of the epoch, in order; nil: not yet made
	instances []Instance
	ready     bool // instances are those of the position's block
}

var _ dataset.Source = (*Source)(nil)

// NewSource returns a Source at the beginning. The corpus must stay open while it is used.
func NewSource(c *Corpus, t *wordpiece.Tokenizer, o Options) (*Source, error) {
	m, err := newMaker(t.Vocab(), o.Settings)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Batch < 1:
		return nil, fmt.Errorf("pretraining: a batch of %d sequences, want at least 1", o.Batch)
	case o.DupeFactor < 0:
		return nil, fmt.Errorf("pretraining: dupe_factor is %d, want at least 1, or 0 for dynamic masks", o.DupeFactor)
	case !(o.HeldOut >= 0 && o.HeldOut < 1):
		return nil, fmt.Errorf("pretraining: %g of the documents are held out, want 0 <= part < 1", o.HeldOut)
	case o.BlockDocuments < 0 || o.BlockDocuments == 1 || o.BlockBytes < 0:
		return nil, fmt.Errorf("pretraining: blocks of %d documents and %d bytes, want at least 2 documents, or 0 for the defaults",
			o.BlockDocuments, o.BlockBytes)
	}
	if o.BlockDocuments == 0 {
		o.BlockDocuments = defaultBlockDocuments
	}
	if o.BlockBytes == 0 {
		o.BlockBytes = defaultBlockBytes
	}
	s := &Source{corpus: c, tokenizer: t, maker: m, options: o}
	if err := s.split(); err != nil {
		return nil, err
	}
	return s, nil
}

// split divides the documents into those for training and those for evaluation.
func (s *Source) split() error {
	n := s.corpus.Documents()
	held, least := 0, 2
	if s.options.HeldOut > 0 {
		held, least = max(2, int(float64(n)*s.options.HeldOut+0.5)), 4
	}
	if n < least || n-held < 2 {
		return fmt.Errorf("text: %s, want at least %d, of which %d are held out for evaluation, since a random next "+
			"sentence comes from another document; a blank line ends a document", spelling.Count(n, "document"), held+2, held)
	}
	s.heldOut = draw.New(s.options.Seed, draw.HeldOut, 0, 0).Permutation(n)[:held:held]
	out := make([]bool, n)
	for _, i := range s.heldOut {
		out[i] = true
	}
	s.training = make([]int32, 0, n-held)
	for i := range n {
		if !out[i] {
			s.training = append(s.training, int32(i))
		}
	}
	return nil
}

// Documents returns how many documents are for training and how many for evaluation.
func (s *Source) Documents() (training, heldOut int) { return len(s.training), len(s.heldOut) }

// Position says where Next continues.
func (s *Source) Position() dataset.Position { return s.position }

// Seek goes to a position. It costs the tokenization of a block.
func (s *Source) Seek(p dataset.Position) error {
	if p.Epoch < 0 || p.Block < 0 || p.Index < 0 {
		return fmt.Errorf("pretraining: position %+v has a negative part", p)
	}
	s.position, s.blocks, s.ready = dataset.Position{Epoch: p.Epoch}, nil, false
	s.startEpoch()
	if p.Block >= len(s.blocks) {
		return fmt.Errorf("pretraining: position is in block %d of an epoch of %d: it is not from this corpus and these settings",
			p.Block, len(s.blocks))
	}
	s.position.Block = p.Block
	if err := s.load(); err != nil {
		return err
	}
	if p.Index > len(s.instances) {
		return fmt.Errorf("pretraining: position is at sequence %d of a block of %d: it is not from this corpus and these settings",
			p.Index, len(s.instances))
	}
	s.position.Index = p.Index
	return nil
}

// Next returns the next global batch.
func (s *Source) Next() (*bert.Batch, error) {
	batch := newBatch(s.options.Batch, s.options.Settings)
	empty := 0 // blocks without an instance, one after the other
	for i := range s.options.Batch {
		for {
			if err := s.load(); err != nil {
				return nil, err
			}
			if len(s.instances) > 0 {
				empty = 0
			} else if empty++; empty > len(s.blocks) {
				return nil, fmt.Errorf("corpus: the tokenizer leaves no token of %d documents: %w", len(s.training), ErrInvalid)
			}
			if s.position.Index < len(s.instances) {
				break
			}
			s.advance()
		}
		fill(batch, i, &s.instances[s.position.Index])
		s.position.Index++
	}
	return batch, nil
}

// advance goes to the beginning of the next block.
func (s *Source) advance() {
	s.position.Block++
	s.position.Index, s.ready = 0, false
	if s.position.Block == len(s.blocks) {
		s.position.Epoch++
		s.position.Block, s.blocks = 0, nil
	}
}

// duplicate is the number under which the epoch's instances are made.
func (s *Source) duplicate() int {
	if s.options.DupeFactor == 0 {
		return s.position.Epoch
	}
	return s.position.Epoch % s.options.DupeFactor
}

// startEpoch makes the blocks of the position's epoch.
func (s *Source) startEpoch() {
	order := draw.New(s.options.Seed, draw.Documents, s.duplicate(), 0).Permutation(len(s.training))
	for i, j := range order {
		order[i] = s.training[j]
	}
	s.blocks = s.cut(order)
}

// cut divides documents into blocks within the limits. No block has fewer than two documents.
func (s *Source) cut(documents []int32) [][]int32 {
	var blocks [][]int32
	start, size := 0, int64(0)
	for i, d := range documents {
		span := s.corpus.documents[d]
		size += span.end - span.start
		n := i + 1 - start
		full := n >= s.options.BlockDocuments || size >= s.options.BlockBytes
		if rest := len(documents) - i - 1; rest == 0 || full && n >= 2 && rest >= 2 {
			blocks = append(blocks, documents[start:i+1])
			start, size = i+1, 0
		}
	}
	return blocks
}

// load makes the instances of the position's block.
func (s *Source) load() error {
	if s.ready {
		return nil
	}
	if s.blocks == nil {
		s.startEpoch()
	}
	p, seed := s.position, s.options.Seed
	// The order of the blocks changes with every epoch, their content only with every duplicate.
	block := int(draw.New(seed, draw.Blocks, p.Epoch, 0).Permutation(len(s.blocks))[p.Block])
	instances, err := s.make(s.blocks[block], draw.New(seed, draw.Instances, s.duplicate(), block))
	if err != nil {
		return err
	}
	draw.New(seed, draw.Shuffle, p.Epoch, block).Shuffle(len(instances), func(i, j int) {
		instances[i], instances[j] = instances[j],
			instances[i]
	})
	s.instances, s.ready = instances, true
	return nil
}

// make makes the instances of documents.
func (s *Source) make(which []int32, r *draw.Draws) ([]Instance, error) {
	docs, err := s.corpus.read(s.tokenizer, which)
	if err != nil {
		return nil, err
	}
	var instances []Instance
	for d := range docs {
		s.maker.document(docs, d, r, func(i Instance) { instances = append(instances, i) })
	}
	return instances, nil
}

// Evaluation returns instances of the held-out documents in batches of a given size; the last may be smaller. Every
// call returns the same ones. There may be fewer instances than asked for if the documents give no more.
func (s *Source) Evaluation(sequences, batch int) ([]*bert.Batch, error) {
	if sequences < 1 || batch < 1 {
		return nil, fmt.Errorf("pretraining: evaluation on %d sequences in batches of %d, want at least 1", sequences, batch)
	}
	if len(s.heldOut) == 0 {
		return nil, fmt.Errorf("pretraining: no document is held out for evaluation")
	}
	var instances []Instance
	for i, block := range s.cut(s.heldOut) {
		r := draw.New(s.options.Seed, draw.Evaluation, 0, i)
		more, err := s.make(block, r)
		if err != nil {
			return nil, err
		}
		r.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		instances = append(instances, more...)
		if len(instances) >= sequences {
			instances = instances[:sequences]
			break
		}
	}
	if len(instances) == 0 {
		return nil, fmt.Errorf("corpus: the tokenizer leaves no token of %d held-out documents: %w", len(s.heldOut), ErrInvalid)
	}
	var batches []*bert.Batch
	for start := 0; start < len(instances); start += batch {
		part := instances[start:min(start+batch, len(instances))]
		b := newBatch(len(part), s.options.Settings)
		b.Sample = start
		for i := range part {
			fill(b, i, &part[i])
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// newBatch returns a batch of padding: [PAD] has the id 0, as published.
func newBatch(size int, s Settings) *bert.Batch {
	tokens, predictions := size*s.MaxLength, size*s.MaxPredictions
	return &bert.Batch{
		Size: size, Length: s.MaxLength, Predictions: s.MaxPredictions,
		InputIDs: make([]int32, tokens), TokenTypeIDs: make([]int32, tokens), AttentionMask: make([]int32, tokens),
		MaskedLMPositions: make([]int32, predictions), MaskedLMIDs: make([]int32, predictions), MaskedLMWeights: make([]float32, predictions),
		NextSentenceLabels: make([]int32, size),
	}
}

// fill makes an instance the i-th sequence of the batch.
func fill(b *bert.Batch, i int, instance *Instance) {
	at := i * b.Length
	copy(b.InputIDs[at:], instance.InputIDs)
	for j := range instance.InputIDs {
		b.AttentionMask[at+j] = 1
		if j >= instance.FirstLength {
			b.TokenTypeIDs[at+j] = 1
		}
	}
	at = i * b.Predictions
	copy(b.MaskedLMPositions[at:], instance.MaskedLMPositions)
	copy(b.MaskedLMIDs[at:], instance.MaskedLMIDs)
	for j := range instance.MaskedLMIDs {
		b.MaskedLMWeights[at+j] = 1
	}
	if instance.RandomNext {
		b.NextSentenceLabels[i] = 1
	}
}
