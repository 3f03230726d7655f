package pretraining_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/wordpiece"
)

// TestAgainstGoogle: text, vocabulary, settings and seed of each file give the file, byte for byte.
func TestAgainstGoogle(t *testing.T) {
	dir := reference.PathOrExcerpt(t, "golden", "pretraining")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no case in %s: %v", dir, err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var golden struct {
			Settings pretraining.GenerationSettings
		}
		if err := json.Unmarshal(want, &golden); err != nil {
			t.Fatal(err)
		}
		s := golden.Settings
		tok := googleTokenizer(t, reference.PathOrExcerpt(t, "data", "vocab", s.Vocab))
		s.Instances = 0 // Generate counts them
		g, err := pretraining.GenerateFile(reference.PathOrExcerpt(t, "data", "corpus", s.Text), tok, s)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		n, err := g.WriteTo(&got)
		if err != nil || n != int64(got.Len()) {
			t.Fatalf("WriteTo returns %d, %v; wrote %d bytes", n, err, got.Len())
		}
		if g, w := strings.TrimSpace(got.String()), strings.TrimSpace(string(want)); g != w {
			at := 0
			for at < min(len(g), len(w)) && g[at] == w[at] {
				at++
			}
			t.Errorf("%s: differs at byte %d:\n got %.200s\nwant %.200s", filepath.Base(file), at, g[max(0, at-50):], w[max(0, at-50):])
		}
	}
}

func googleTokenizer(t testing.TB, path string) *wordpiece.Tokenizer {
	t.Helper()
	v, err := wordpiece.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
