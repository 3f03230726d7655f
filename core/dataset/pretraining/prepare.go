package pretraining

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	"time"

	"harness.invalid/core/dataset/internal/draw"
	"harness.invalid/core/durable"
	"harness.invalid/core/wordpiece"
)

// Manifest is what a folder of prepared data holds. As JSON it is the folder's manifest.json, which is written last.
type Manifest struct {
	Format string `json:"format"`
	PrepareSettings
	Text      string `json:"text"`       // digest of the text that it was made of, see Corpus.Digest
	Vocab     string `json:"vocab"`      // SHA-256 of vocab.txt
	VocabSize int    `json:"vocab_size"` // tokens of the vocabulary
	// Documents are for training; their sequences are dealt into the shards at random and shuffled there.
	Documents int         `json:"documents"`
	Shards    []ShardInfo `json:"shards"`
	// HeldOut documents are for evaluation, in their own shard, which has no duplicates.
	HeldOutDocuments int       `json:"held_out_documents"`
	HeldOutShard     ShardInfo `json:"held_out_shard"`
}

// PrepareSettings are the settings that shape prepared data. Which tokens are masked is not among them: that is
// drawn when the data is dealt.
type PrepareSettings struct {
	Length     int     `json:"max_seq_length"`
	ShortProb  float64 `json:"short_seq_prob"`
	DupeFactor int     `json:"dupe_factor"` // times that the text is used, with other segments each time
	HeldOut    float64 `json:"held_out"`    // part of the documents that is kept for evaluation
	Seed       uint64  `json:"seed"`
	Lowercase  bool    `json:"lowercase"` // of the tokenizer
}

// ShardInfo is a file of sequences.
type ShardInfo struct {
	File      string `json:"file"`
	Sequences int64  `json:"sequences"`
	Tokens    int64  `json:"tokens"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
}

const (
	preparedFormat = "harness pretraining data 1"
	manifestFile   = "manifest.json"
	vocabFile      = "vocab.txt"
	progressFolder = "progress" // there while the data is prepared
	journalFile    = "journal.json"
	lockFile       = "lock" // in progress: of the one process that prepares there

	// A block is tokenized by one worker at a time. It is smaller than a Source's, since duplicates of all its
	// sequences are held at once.
	prepareBlockDocuments = 1024
	prepareBlockBytes     = 4 << 20
	// shardBytes is what a shard is to hold when their number is not given: a shard is shuffled in memory, and read whole.
	shardBytes = 64 << 20
	maxShards  = 4096
)

// journalEvery is the time between two notes of what is done, after which a new attempt goes on.
var journalEvery = 5 * time.Second

// Preparation is how data is prepared, besides what shapes it.
type Preparation struct {
	PrepareSettings
	Shards  int // 0: as many as make 64 MiB each
	Workers int // goroutines that tokenize; 0: one for each CPU. The data does not depend on it
	// Progress is told how much of a stage is done; nil: nobody is.
	Progress func(stage string, done, total int64)
}

// Prepare writes a corpus into a folder as sequences of tokens: cut into pairs of segments as in
// google-research/bert, dealt over shards at random, shuffled within them, indexed, and summed up. Neither text nor
// data need fit into memory: what does is a few blocks of documents, and then one shard for each worker.
//
// A folder in which a preparation was cut short is gone on with, to the same bytes. A folder with other data is an
// error, and so is one in which another process prepares at the same time (durable.ErrLocked).
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

// prepare does what there is to do once the folder is locked.
func (w *preparation) prepare(ctx context.Context) (*Manifest, error) {
	// Another process may have come to its end just now.
	if m, err := w.complete(); m != nil || err != nil {
		return m, err
	}
	if err := durable.RemoveLeftovers(w.dir); err != nil {
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

// complete returns the manifest of the folder if what it holds is done, and nil if it is not.
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

// lock makes the folder and takes the lock in it.
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
		return nil, fmt.Errorf("prepare: another process prepares data in %s: wait for its end, or choose another folder: %w", w.dir, err)
	}
	return unlock, err
}

// preparation is a Prepare under way.
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

// journal is how far a preparation has come.
type journal struct {
	PrepareSettings
	Text   string `json:"text"`
	Vocab  string `json:"vocab"`
	Blocks int    `json:"blocks"` // whose sequences are in the spill files
	// Sizes of the spill files, one for each shard and the last for what is held out. What lies behind is of a
	// block that was not complete.
	Sizes []int64 `json:"sizes"`
	// Done are the shards that are written; empty: not yet.
	Done []ShardInfo `json:"done"`
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
	// One prediction, of which none is made here.
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
		// English takes a token for four and a half bytes.
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
	// The documents in a random order, so that blocks mix what the files have side by side; then those that are
	// held out, in the order of evaluation.
	s.startEpoch()
	w.blocks = append(w.blocks, s.blocks...)
	if len(s.heldOut) > 0 {
		w.blocks = append(w.blocks, s.cut(s.heldOut)...)
	}
	return w, nil
}

// same reports whether data was made as this would be.
func (w *preparation) same(s *PrepareSettings, text, vocab string, shards int) bool {
	return *s == w.PrepareSettings && text == w.journal.Text && vocab == w.journal.Vocab && shards == w.Shards
}

func (w *preparation) spillPath(i int) string {
	return filepath.Join(w.dir, progressFolder, fmt.Sprintf("spill-%05d", i))
}

// begin finds how far an earlier attempt came, or notes that this is the first.
func (w *preparation) begin() error {
	path := filepath.Join(w.dir, progressFolder, journalFile)
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		var before journal
		if err := json.Unmarshal(text, &before); err != nil {
			return fmt.Errorf("prepare: %s: %w", path, err)
		}
		if !w.same(&before.PrepareSettings, before.Text, before.Vocab, len(before.Sizes)-1) || len(before.Done) != len(before.Sizes) ||
			before.Blocks > len(w.blocks) {
			return fmt.Errorf("prepare: in %s other data is being prepared (another text, or other settings): choose another folder, or remove it", w.dir)
		}
		w.journal = before
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return w.note()
}

// note writes the journal.
func (w *preparation) note() error {
	return durable.WriteFile(filepath.Join(w.dir, progressFolder, journalFile), func(out io.Writer) error {
		return json.NewEncoder(out).Encode(&w.journal)
	})
}

// cutBlock is what a worker makes of a block: the sequences of each shard, each with its length before it.
type cutBlock struct {
	number int
	shards [][]byte
	err    error
}

// cut tokenizes the blocks that are not yet done, on all workers, and appends their sequences to the spill files in
// the order of the blocks.
func (w *preparation) cut(ctx context.Context) (err error) {
	if w.journal.Blocks == len(w.blocks) {
		return nil
	}
	for i := range w.Shards + 1 {
		f, err := os.OpenFile(w.spillPath(i), os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncate(w.journal.Sizes[i]); err != nil {
			return err
		}
		if _, err := f.Seek(w.journal.Sizes[i], io.SeekStart); err != nil {
			return err
		}
		w.spills = append(w.spills, f)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := w.work(ctx)
	defer func() {
		cancel()
		for r := range results { // the workers are to be done with the corpus
			<-r
		}
	}()
	var total, done int64
	sizes := make([]int64, len(w.blocks))
	for i, block := range w.blocks {
		for _, d := range block {
			sizes[i] += w.source.corpus.documents[d].end - w.source.corpus.documents[d].start
		}
		total += sizes[i]
		if i < w.journal.Blocks {
			done += sizes[i]
		}
	}
	noted := time.Now()
	for r := range results {
		b := <-r
		if b.err != nil {
			return errors.Join(b.err, w.sync())
		}
		for i, data := range b.shards {
			if _, err := w.spills[i].Write(data); err != nil {
				return err
			}
			w.journal.Sizes[i] += int64(len(data))
		}
		w.journal.Blocks = b.number + 1
		done += sizes[b.number]
		w.Progress("tokenize", done, total)
		if time.Since(noted) >= journalEvery {
			noted = time.Now()
			if err := w.sync(); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.sync(), context.Cause(ctx))
}

// sync makes what is done safe.
func (w *preparation) sync() error {
	for _, f := range w.spills {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return w.note()
}

// work starts the workers. Results come in the order of the blocks, a few more blocks than workers ahead.
func (w *preparation) work(ctx context.Context) <-chan chan cutBlock {
	type job struct {
		number int
		result chan cutBlock
	}
	jobs, results := make(chan job), make(chan chan cutBlock, 2*w.Workers)
	for range w.Workers {
		go func() {
			for j := range jobs {
				j.result <- w.block(j.number)
			}
		}()
	}
	go func() {
		defer close(results)
		defer close(jobs)
		for number := w.journal.Blocks; number < len(w.blocks); number++ {
			j := job{number, make(chan cutBlock, 1)}
			select {
			case jobs <- j:
				results <- j.result
			case <-ctx.Done():
				return
			}
		}
	}()
	return results
}

// block makes the sequences of a block.
func (w *preparation) block(number int) cutBlock {
	out := cutBlock{number: number, shards: make([][]byte, w.Shards+1)}
	docs, err := w.source.corpus.read(w.tokenizer, w.blocks[number])
	if err != nil {
		out.err = err
		return out
	}
	m, err := newMaker(w.tokenizer.Vocab(), w.source.maker.Settings)
	if err != nil {
		out.err = err
		return out
	}
	m.plain = true
	training := len(w.source.blocks)
	held, duplicates, use, minor := number >= training, w.DupeFactor, draw.Instances, number
	if held {
		duplicates, use, minor = 1, draw.Evaluation, number-training
	}
	for d := range duplicates {
		r := draw.New(w.Seed, use, d, minor)
		shards := draw.New(w.Seed, draw.Shards, d, minor)
		for i := range docs {
			m.document(docs, i, r, func(instance Instance) {
				to := w.Shards
				if !held {
					to = shards.IntN(w.Shards)
				}
				s := out.shards[to]
				at := len(s)
				s = appendSequence(append(s, 0, 0, 0, 0), w.width, &instance)
				binary.LittleEndian.PutUint32(s[at:], uint32(len(s)-at-4))
				out.shards[to] = s
			})
		}
	}
	return out
}

// shuffle makes a shard of each spill file.
func (w *preparation) shuffle(ctx context.Context) error {
	var todo []int
	for i, s := range w.journal.Done {
		if s.File == "" {
			todo = append(todo, i)
		}
	}
	type result struct {
		i    int
		info ShardInfo
		err  error
	}
	next, results := make(chan int, len(todo)), make(chan result)
	for _, i := range todo {
		next <- i
	}
	close(next)
	workers := min(w.Workers, len(todo))
	for range workers {
		go func() {
			for i := range next {
				if ctx.Err() != nil {
					results <- result{i, ShardInfo{}, context.Cause(ctx)}
					continue
				}
				info, err := w.shuffleShard(i)
				results <- result{i, info, err}
			}
		}()
	}
	var failed error
	for n := range todo {
		r := <-results
		if r.err != nil {
			failed = r.err
			continue
		}
		w.journal.Done[r.i] = r.info
		if err := w.note(); err != nil && failed == nil {
			failed = err
		}
		w.Progress("shuffle", int64(len(w.journal.Done)-len(todo)+n+1), int64(len(w.journal.Done)))
	}
	return failed
}

// shuffleShard writes a shard. What is held out stays in its order.
func (w *preparation) shuffleShard(i int) (ShardInfo, error) {
	name := fmt.Sprintf("train-%05d-of-%05d.shard", i, w.Shards)
	if i == w.Shards {
		name = "held-out.shard"
	}
	spill, err := os.ReadFile(w.spillPath(i))
	if err != nil {
		return ShardInfo{}, err
	}
	if size := w.journal.Sizes[i]; int64(len(spill)) < size {
		return ShardInfo{}, fmt.Errorf("prepare: %s has %d bytes, it had %d: remove the folder and begin again", w.spillPath(i), len(spill), size)
	}
	spill = spill[:w.journal.Sizes[i]]
	info := ShardInfo{File: name}
	var sequences [][]byte
	for rest := spill; len(rest) > 0; {
		if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return info, fmt.Errorf("prepare: %s is damaged: remove the folder and begin again", w.spillPath(i))
		}
		n := 4 + int(binary.LittleEndian.Uint32(rest))
		sequences = append(sequences, rest[4:n])
		info.Tokens += int64((n - 6) / w.width)
		rest = rest[n:]
	}
	info.Sequences = int64(len(sequences))
	if i < w.Shards {
		draw.New(w.Seed, draw.Shuffle, 0, i).Shuffle(len(sequences), func(a, b int) { sequences[a], sequences[b] = sequences[b], sequences[a] })
	}
	hash := sha256.New()
	counted := &counter{w: hash}
	err = durable.WriteFile(filepath.Join(w.dir, name), func(out io.Writer) error {
		return writeShard(io.MultiWriter(out, counted), w.width, sequences)
	})
	info.Bytes, info.SHA256 = counted.n, hex.EncodeToString(hash.Sum(nil))
	return info, err
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

// Sequences is the number of sequences to train on.
func (m *Manifest) Sequences() int64 {
	var n int64
	for _, s := range m.Shards {
		n += s.Sequences
	}
	return n
}

// Tokens is the number of tokens to train on, without padding.
func (m *Manifest) Tokens() int64 {
	var n int64
	for _, s := range m.Shards {
		n += s.Tokens
	}
	return n
}

func readManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.Format != preparedFormat {
		return nil, fmt.Errorf("%s: format is %q, want %q", path, m.Format, preparedFormat)
	}
	return m, nil
}
