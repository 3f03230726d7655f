package pretraining

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"harness.invalid/core/durable"
)

// journalEvery is the time between two saves of the progress, from which a new attempt continues.
var journalEvery = 5 * time.Second

// journal is how far a preparation has come.
type journal struct {
	PrepareSettings
	Text   string `json:"text"`
	Vocab  string `json:"vocab"`
	Blocks int    `json:"blocks"` // whose sequences are in the spill files
	// Sizes of the spill files, one for each shard and the last for held-out data. Bytes beyond these sizes belong to
	// an incomplete block.
	Sizes []int64 `json:"sizes"`
	// Done are the shards that are written; empty: not yet.
	Done []ShardInfo `json:"done"`
}

// same reports whether data was made as this would be.
func (w *preparation) same(s *PrepareSettings, text, vocab string, shards int) bool {
	return *s == w.PrepareSettings && text == w.journal.Text && vocab == w.journal.Vocab && shards == w.Shards
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
		if !w.same(&before.PrepareSettings, before.Text, before.Vocab, len(before.Sizes)-1) ||
			len(before.Done) != len(before.Sizes) || before.Blocks > len(w.blocks) {
			return fmt.Errorf("prepare: in %s other data is being prepared (another text, or other settings): "+
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
