package pretraining

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/internal/draw"
	"harness.invalid/core/wordpiece"
)

// Prepared is a folder that Prepare wrote.
type Prepared struct {
	Manifest
	dir string
}

// OpenPrepared opens a folder of prepared data. Shards are read and checked when they are dealt.
func OpenPrepared(dir string) (*Prepared, error) {
	m, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, unfinished := os.Stat(filepath.Join(dir, progressFolder)); unfinished == nil {
			return nil, fmt.Errorf("prepared data %s: it is not complete: run the same harness data prepare again", dir)
		}
		return nil, fmt.Errorf("prepared data %s: there is no %s: harness data prepare makes such a folder", dir, manifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("prepared data: %w", err)
	}
	p := &Prepared{*m, dir}
	for _, s := range append(m.Shards[:len(m.Shards):len(m.Shards)], m.HeldOutShard) {
		if s.File != filepath.Base(s.File) || s.Sequences < 0 || s.Sequences > maxShardSize {
			return nil, fmt.Errorf("prepared data %s: the manifest has a shard %q of %d sequences: %w", dir, s.File, s.Sequences, ErrInvalid)
		}
	}
	return p, nil
}

// VocabFile is the path of the vocabulary that the data was made with.
func (p *Prepared) VocabFile() string { return filepath.Join(p.dir, vocabFile) }

// Digest identifies the data: the SHA-256 of its manifest, which has the shards' sums.
func (p *Prepared) Digest() string {
	text, err := json.Marshal(&p.Manifest)
	if err != nil {
		panic("pretraining: a manifest can't be written as JSON") // it is text and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Verify reads all shards and compares them with the manifest. Progress, if not nil, receives the bytes read and
// the total.
func (p *Prepared) Verify(progress func(done, total int64)) error {
	var done, total int64
	shards := append(p.Shards[:len(p.Shards):len(p.Shards)], p.HeldOutShard)
	for _, s := range shards {
		total += s.Bytes
	}
	for _, s := range shards {
		path := filepath.Join(p.dir, s.File)
		f, err := bounded.Open(path, maxShardSize)
		if err != nil {
			return fmt.Errorf("prepared data: %w", err)
		}
		hash := sha256.New()
		n, err := io.Copy(hash, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("prepared data: %w", err)
		}
		if sum := hex.EncodeToString(hash.Sum(nil)); n != s.Bytes || sum != s.SHA256 {
			return fmt.Errorf("prepared data: %s has %d bytes with the SHA-256 %s, the manifest says %d and %s: it is damaged: %w", path, n,
				sum, s.Bytes, s.SHA256, ErrInvalid)
		}
		sequences, err := readShard(path, &p.Manifest, s)
		if err != nil {
			return fmt.Errorf("prepared data: %w", err)
		}
		var instance Instance
		for i := range sequences.count {
			if err := sequences.sequence(i, &instance); err != nil {
				return fmt.Errorf("prepared data: %w", err)
			}
		}
		if done += n; progress != nil {
			progress(done, total)
		}
	}
	return nil
}

// Dealing holds the settings for dealing prepared data.
type Dealing struct {
	Settings        // MaxLength and ShortProb are those of the data
	Batch    int    // sequences of a global batch
	Seed     uint64 // of orders and masks
	Dynamic  bool   // new masks in each epoch; else a sequence keeps its mask
}

// PreparedSource deals prepared data shard by shard, endlessly. Each epoch deals every sequence once. The order of
// the shards and of the sequences in a shard are functions of (seed, epoch), the masks of (seed, sequence) or
// (seed, epoch, sequence).
type PreparedSource struct {
	data     *Prepared
	maker    *maker
	dealing  Dealing
	starts   []int64 // number of the first sequence of each shard, among all
	position dataset.Position
	shards   []int32 // in the order of the epoch; nil: not yet made
	shard    *shard  // of the position; nil: not yet read
	first    int64   // number of its first sequence
	order    []int32 // of its sequences
}

var _ dataset.Source = (*PreparedSource)(nil)

// Source returns a source at the beginning. The vocabulary must be the one that the data was made with.
func (p *Prepared) Source(t *wordpiece.Tokenizer, d Dealing) (*PreparedSource, error) {
	hash := sha256.New()
	if _, err := t.Vocab().WriteTo(hash); err != nil {
		return nil, err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != p.Vocab {
		return nil, fmt.Errorf("prepared data %s: it was made with another vocabulary: use %s", p.dir, p.VocabFile())
	}
	switch {
	case d.MaxLength != p.Length:
		return nil, fmt.Errorf("prepared data %s: its sequences have up to %d tokens, want %d", p.dir, p.Length, d.MaxLength)
	case d.ShortProb != p.ShortProb:
		return nil, fmt.Errorf("prepared data %s: its short_seq_prob is %g, want %g", p.dir, p.ShortProb, d.ShortProb)
	case d.Batch < 1:
		return nil, fmt.Errorf("pretraining: a batch of %d sequences, want at least 1", d.Batch)
	}
	m, err := newMaker(t.Vocab(), d.Settings)
	if err != nil {
		return nil, err
	}
	s := &PreparedSource{data: p, maker: m, dealing: d, starts: make([]int64, len(p.Shards)+1)}
	for i, shard := range p.Shards {
		s.starts[i+1] = s.starts[i] + shard.Sequences
	}
	if s.Sequences() == 0 {
		return nil, fmt.Errorf("prepared data %s: it has no sequence to train on: %w", p.dir, ErrInvalid)
	}
	return s, nil
}

// Sequences is the number of sequences of an epoch.
func (s *PreparedSource) Sequences() int64 { return s.starts[len(s.starts)-1] }

// Position says where Next continues.
func (s *PreparedSource) Position() dataset.Position { return s.position }

// Seek goes to a position.
func (s *PreparedSource) Seek(p dataset.Position) error {
	if p.Epoch < 0 || p.Block < 0 || p.Index < 0 || p.Block >= len(s.data.Shards) {
		return fmt.Errorf("pretraining: position %+v of prepared data with %d shards: it is not from this data", p, len(s.data.Shards))
	}
	s.position, s.shards, s.shard = p, nil, nil
	if err := s.load(); err != nil {
		return err
	}
	if p.Index > s.shard.count {
		return fmt.Errorf("pretraining: position is at sequence %d of a shard of %d: it is not from this data", p.Index, s.shard.count)
	}
	return nil
}

// Next returns the next global batch.
func (s *PreparedSource) Next() (*bert.Batch, error) {
	batch := newBatch(s.dealing.Batch, s.dealing.Settings)
	var instance Instance
	for i := range s.dealing.Batch {
		if err := s.load(); err != nil {
			return nil, err
		}
		for s.position.Index == s.shard.count {
			s.position.Block, s.position.Index, s.shard = s.position.Block+1, 0, nil
			if s.position.Block == len(s.data.Shards) {
				s.position.Epoch, s.position.Block, s.shards = s.position.Epoch+1, 0, nil
			}
			if err := s.load(); err != nil {
				return nil, err
			}
		}
		mask := 0
		if s.dealing.Dynamic {
			mask = s.position.Epoch + 1
		}
		at := int(s.order[s.position.Index])
		if err := s.read(s.shard, at, mask, s.first+int64(at), &instance); err != nil {
			return nil, err
		}
		fill(batch, i, &instance)
		s.position.Index++
	}
	return batch, nil
}

// read reads a sequence and masks it. The mask depends on the sequence's number among all.
func (s *PreparedSource) read(from *shard, i, mask int, number int64, into *Instance) error {
	if err := from.sequence(i, into); err != nil {
		return fmt.Errorf("prepared data: %w", err)
	}
	into.MaskedLMPositions, into.MaskedLMIDs = s.maker.maskTokens(into.InputIDs, into.FirstLength,
		draw.New(s.dealing.Seed, draw.Masks, mask, int(number)))
	return nil
}

// load reads the position's shard.
func (s *PreparedSource) load() error {
	if s.shard != nil {
		return nil
	}
	if s.shards == nil {
		s.shards = draw.New(s.dealing.Seed, draw.Blocks, s.position.Epoch, 0).Permutation(len(s.data.Shards))
	}
	number := int(s.shards[s.position.Block])
	shard, err := s.open(s.data.Shards[number])
	if err != nil {
		return err
	}
	s.shard, s.first = shard, s.starts[number]
	s.order = draw.New(s.dealing.Seed, draw.Shuffle, s.position.Epoch, number).Permutation(shard.count)
	return nil
}

func (s *PreparedSource) open(info ShardInfo) (*shard, error) {
	shard, err := readShard(filepath.Join(s.data.dir, info.File), &s.data.Manifest, info)
	if err != nil {
		return nil, fmt.Errorf("prepared data: %w", err)
	}
	return shard, nil
}

// Evaluation returns held-out sequences like Source.Evaluation, always with the same masks.
func (s *PreparedSource) Evaluation(sequences, batch int) ([]*bert.Batch, error) {
	if sequences < 1 || batch < 1 {
		return nil, fmt.Errorf("pretraining: evaluation on %d sequences in batches of %d, want at least 1", sequences, batch)
	}
	shard, err := s.open(s.data.HeldOutShard)
	if err != nil {
		return nil, err
	}
	n := min(sequences, shard.count)
	if n == 0 {
		return nil, fmt.Errorf("prepared data %s: no sequence is held out for evaluation: prepare it with held-out documents", s.data.dir)
	}
	var batches []*bert.Batch
	var instance Instance
	for start := 0; start < n; start += batch {
		b := newBatch(min(batch, n-start), s.dealing.Settings)
		b.Sample = start
		for i := range b.Size {
			if err := s.read(shard, start+i, 0, s.Sequences()+int64(start+i), &instance); err != nil {
				return nil, err
			}
			fill(b, i, &instance)
		}
		batches = append(batches, b)
	}
	return batches, nil
}
