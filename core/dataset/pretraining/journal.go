package pretraining

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
)

// journalEvery is the time between two journal entries. A new attempt continues after the last one.
var journalEvery = 5 * time.Second

// journal is the progress of a preparation.
type journal struct {
	PrepareSettings
	Text   string `json:"text"`
	Vocab  string `json:"vocab"`
	Blocks int    `json:"blocks"` // whose sequences are in the spill files
	// Sizes of the spill files: one for each shard, the last for held-out documents. Bytes beyond them belong to an
	// incomplete block.
	Sizes []int64 `json:"sizes"`
	// Done are the finished shards; an empty entry is still to do.
	Done []ShardInfo `json:"done"`
}

// same reports whether data has this preparation's settings, text and vocabulary.
func (w *preparation) same(s *PrepareSettings, text, vocab string, shards int) bool {
	return *s == w.PrepareSettings && text == w.journal.Text && vocab == w.journal.Vocab && shards == w.Shards
}

// begin reads the progress of an earlier attempt, or starts a journal.
func (w *preparation) begin() error {
	path := filepath.Join(w.dir, progressFolder, journalFile)
	text, err := bounded.ReadFile(path, 64*bounded.MiB)
	switch {
	case err == nil:
		var before journal
		if err := json.Unmarshal(text, &before); err != nil {
			return fmt.Errorf("prepare: %s: %w", path, err)
		}
		if !w.same(&before.PrepareSettings, before.Text, before.Vocab, len(before.Sizes)-1) ||
			len(before.Done) != len(before.Sizes) || before.Blocks > len(w.blocks) {
			return fmt.Errorf("prepare: %s is in use for other data (another text, or other settings): "+
				"choose another folder, or remove it", w.dir)
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
