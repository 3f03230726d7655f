package pretraining

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"harness.invalid/core/durable"
	"harness.invalid/core/wordpiece"
)

const (
	preparedFormat = "harness pretraining data 1"
	manifestFile   = "manifest.json"
	vocabFile      = "vocab.txt"
	progressFolder = "progress" // exists during the preparation
	journalFile    = "journal.json"
	lockFile       = "lock" // in progress: locked by the process that prepares there

	// A block is tokenized by one worker at a time. It is smaller than a Source's block, since all duplicates of
	// its sequences are in memory at once.
	prepareBlockDocuments = 1024
	prepareBlockBytes     = 4 << 20
	// shardBytes is the target size of a shard if no number of shards is given: a shard is shuffled in memory and
	// read whole.
	shardBytes = 64 << 20
	maxShards  = 4096
)

// Preparation adds to PrepareSettings what does not shape the data.
type Preparation struct {
	PrepareSettings
	Shards  int // 0: as many as make 64 MiB each
	Workers int // goroutines that tokenize; 0: one for each CPU. The data does not depend on it
	// Progress receives how much of a stage is done. It may be nil.
	Progress func(stage string, done, total int64)
}

// Prepare writes a corpus into a folder as sequences of tokens: cut into pairs of segments as in
// google-research/bert, dealt to random shards, shuffled there, indexed, and protected by checksums. Neither text
// nor data need fit into memory, only a few blocks of documents, and later one shard for each worker.
//
// An interrupted preparation continues, with the same bytes as a result. A folder with other data is an error, and
// so is one where another process is preparing (durable.ErrLocked).
func Prepare(ctx context.Context, dir string, c *Corpus, t *wordpiece.Tokenizer, p Preparation) (*Manifest, error) {
	w, err := newPreparation(dir, c, t, p)
	if err != nil {
		return nil, err
	}
	m, err := w.complete()
	if m == nil && err == nil {
		var unlock func() error
		if unlock, err = w.lock(); err != nil {
			return nil, err
		}
		m, err = w.prepare(ctx)
		err = errors.Join(err, unlock())
	}
	if err != nil {
		return nil, err
	}
	return m, os.RemoveAll(filepath.Join(dir, progressFolder))
}

// prepare does the remaining work once the folder is locked.
func (w *preparation) prepare(ctx context.Context) (*Manifest, error) {
	// Another process may have finished just now.
	if m, err := w.complete(); m != nil || err != nil {
		return m, err
	}
	if err := durable.RemoveLeftovers(w.dir, 0); err != nil {
		return nil, err
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	if err := w.cut(ctx); err != nil {
		return nil, err
	}
	if err := w.shuffle(ctx); err != nil {
		return nil, err
	}
	return w.finish()
}

// complete returns the manifest of the folder, or nil if the folder is not complete.
func (w *preparation) complete() (*Manifest, error) {
	m, err := readManifest(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !w.same(&m.PrepareSettings, m.Text, m.Vocab, len(m.Shards)) {
		return nil, fmt.Errorf("prepare: %s holds data of another text or other settings: choose another folder, or remove it", w.dir)
	}
	return m, err
}

// lock creates the folder and locks it.
func (w *preparation) lock() (unlock func() error, err error) {
	progress := filepath.Join(w.dir, progressFolder)
	entries, err := os.ReadDir(w.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == progressFolder }) {
		return nil, fmt.Errorf("prepare: the folder %s is not empty, and nothing was prepared there: choose another one", w.dir)
	}
	if err := os.MkdirAll(progress, 0o777); err != nil {
		return nil, err
	}
	unlock, err = durable.Lock(filepath.Join(progress, lockFile))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("prepare: another process is preparing data in %s: wait until it is done, or choose another folder: %w",
			w.dir, err)
	}
	return unlock, err
}

// preparation is the state of Prepare.
type preparation struct {
	Preparation
	dir       string
	source    *Source // for its documents and blocks
	tokenizer *wordpiece.Tokenizer
	width     int
	vocab     []byte
	journal   journal
	spills    []*os.File
	blocks    [][]int32
}

func newPreparation(dir string, c *Corpus, t *wordpiece.Tokenizer, p Preparation) (*preparation, error) {
	if p.DupeFactor < 1 || p.DupeFactor > 1<<16 {
		return nil, fmt.Errorf("prepare: dupe_factor is %d, want 1 to %d", p.DupeFactor, 1<<16)
	}
	if p.Length >= randomNext {
		return nil, fmt.Errorf("prepare: max_seq_length is %d, want less than %d", p.Length, randomNext)
	}
	if p.Shards < 0 || p.Shards > maxShards {
		return nil, fmt.Errorf("prepare: %d shards, want 1 to %d, or 0 to follow from the size of the text", p.Shards, maxShards)
	}
	// Nothing is masked here, but a Source wants at least one prediction.
	s, err := NewSource(c, t, Options{
		Settings: Settings{MaxLength: p.Length, MaxPredictions: 1, ShortProb: p.ShortProb, MaskedProb: 0.15},
		Batch:    1, Seed: p.Seed, DupeFactor: p.DupeFactor, HeldOut: p.HeldOut, BlockDocuments: prepareBlockDocuments,
		BlockBytes: prepareBlockBytes,
	})
	if err != nil {
		return nil, err
	}
	var vocab bytes.Buffer
	if _, err := t.Vocab().WriteTo(&vocab); err != nil {
		return nil, err
	}
	w := &preparation{Preparation: p, dir: dir, source: s, tokenizer: t, width: tokenWidth(t.Vocab().Len()), vocab: vocab.Bytes()}
	if w.Shards == 0 {
		// English has a token for every four and a half bytes.
		w.Shards = int(min(1+c.Bytes()*int64(p.DupeFactor)*int64(w.width)*2/9/shardBytes, maxShards))
	}
	if w.Workers <= 0 {
		w.Workers = runtime.GOMAXPROCS(0)
	}
	if w.Progress == nil {
		w.Progress = func(string, int64, int64) {}
	}
	sum := sha256.Sum256(w.vocab)
	w.journal = journal{
		PrepareSettings: p.PrepareSettings, Text: c.Digest(), Vocab: hex.EncodeToString(sum[:]),
		Sizes: make([]int64, w.Shards+1), Done: make([]ShardInfo, w.Shards+1),
	}
	// First the training documents in random order, so that blocks mix neighbours in the files; then the held-out
	// ones in the order of evaluation.
	s.startEpoch()
	w.blocks = append(w.blocks, s.blocks...)
	if len(s.heldOut) > 0 {
		w.blocks = append(w.blocks, s.cut(s.heldOut)...)
	}
	return w, nil
}

func (w *preparation) spillPath(i int) string {
	return filepath.Join(w.dir, progressFolder, fmt.Sprintf("spill-%05d", i))
}

// finish writes the vocabulary and the manifest.
func (w *preparation) finish() (*Manifest, error) {
	training, held := w.source.Documents()
	m := &Manifest{
		Format: preparedFormat, PrepareSettings: w.PrepareSettings, Text: w.journal.Text, Vocab: w.journal.Vocab,
		VocabSize: w.tokenizer.Vocab().Len(),
		Documents: training, Shards: slices.Clone(w.journal.Done[:w.Shards]), HeldOutDocuments: held, HeldOutShard: w.journal.Done[w.Shards],
	}
	if m.Sequences() == 0 {
		return nil, fmt.Errorf("corpus: the tokenizer leaves no token of %d documents: %w", training, ErrInvalid)
	}
	if err := durable.WriteFile(filepath.Join(w.dir, vocabFile), func(out io.Writer) error {
		_, err := out.Write(w.vocab)
		return err
	}); err != nil {
		return nil, err
	}
	err := durable.WriteFile(filepath.Join(w.dir, manifestFile), func(out io.Writer) error {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	})
	return m, err
}
