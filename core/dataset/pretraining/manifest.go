package pretraining

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"harness.invalid/core/bounded"
	"harness.invalid/core/jsonerror"
)

// Manifest describes a folder of prepared data. As JSON it is the folder's manifest.json, which is written last.
type Manifest struct {
	Format string `json:"format"`
	PrepareSettings
	Text      string `json:"text"`       // digest of the text that it was made of, see Corpus.Digest
	Vocab     string `json:"vocab"`      // SHA-256 of vocab.txt
	VocabSize int    `json:"vocab_size"` // tokens of the vocabulary
	// Documents are for training. Their sequences go to random shards and are shuffled there.
	Documents int         `json:"documents"`
	Shards    []ShardInfo `json:"shards"`
	// HeldOut documents are for evaluation, in a shard of their own without duplicates.
	HeldOutDocuments int       `json:"held_out_documents"`
	HeldOutShard     ShardInfo `json:"held_out_shard"`
}

// PrepareSettings are the settings that shape prepared data. Masks are not among them: they are drawn when the data
// is dealt.
type PrepareSettings struct {
	Length     int     `json:"max_seq_length"`
	ShortProb  float64 `json:"short_seq_prob"`
	DupeFactor int     `json:"dupe_factor"` // passes over the text, each with other segments
	HeldOut    float64 `json:"held_out"`    // share of the documents withheld for evaluation
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
	text, err := bounded.ReadFile(path, 64*bounded.MiB)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, jsonerror.Explain(text, err))
	}
	if m.Format != preparedFormat {
		return nil, fmt.Errorf("%s: format is %q, want %q", path, m.Format, preparedFormat)
	}
	return m, nil
}
