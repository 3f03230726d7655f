package pretraining_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/internal/reference"
)

// write writes a text file and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, paths ...string) *pretraining.Corpus {
	t.Helper()
	c, err := pretraining.Open(paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// small is a text of n documents of two sentences each, which all have the same number of words; document i says
// i%20 i/20%20.
func small(n int) string {
	var b strings.Builder
	for i := range n {
		name := fmt.Sprintf("w%02d w%02d ", i%20, i/20%20)
		fmt.Fprintf(&b, "%s%s\n%s%s\n\n", name, name, name, name)
	}
	return b.String()
}

func TestOpen(t *testing.T) {
	one, two := "w01\nw02\r\n\n \nw03", "\n\nw04\n\n"
	a, b := write(t, "a", one), write(t, "b", two)
	var done, total int64
	c, err := pretraining.Open([]string{a, b}, func(d, n int64) { done, total = d, n })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Documents() != 3 || c.Sentences() != 4 || c.Bytes() != int64(len(one+two)) {
		t.Errorf("corpus has %d documents, %d sentences, %d bytes, want 3, 4, %d", c.Documents(), c.Sentences(), c.Bytes(), len(one+two))
	}
	if done != c.Bytes() || total != c.Bytes() {
		t.Errorf("progress ends at %d of %d, want %d", done, total, c.Bytes())
	}
	sum1, sum2 := sha256.Sum256([]byte(one)), sha256.Sum256([]byte(two))
	want := sha256.Sum256(append(sum1[:], sum2[:]...))
	if c.Digest() != hex.EncodeToString(want[:]) {
		t.Errorf("digest is %s, want %x", c.Digest(), want)
	}
	other := open(t, b, a)
	if other.Digest() == c.Digest() {
		t.Error("digest is the same whatever the order of the files")
	}
}

func TestOpenErrors(t *testing.T) {
	good := write(t, "good", "w01\n")
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "no sentence: invalid text"},
		{"blank", "\n\t\n", "no sentence: invalid text"},
		{"not UTF-8", "w01\n\nw02\nw \xc3(\n", ":4:3: byte 0xc3 is not UTF-8: invalid text"},
		{"cut character", "w01 \xe2\x82", ":1:5: byte 0xe2 is not UTF-8"},
	} {
		path := write(t, "bad", c.text)
		_, err := pretraining.Open([]string{good, path}, nil)
		if err == nil || !strings.Contains(err.Error(), path+c.want) && !strings.Contains(err.Error(), path+": "+c.want) {
			t.Errorf("%s: error is %v, want %s and %q", c.name, err, path, c.want)
		}
	}
	if _, err := pretraining.Open(nil, nil); err == nil {
		t.Error("no file is no error")
	}
	if _, err := pretraining.Open([]string{filepath.Join(t.TempDir(), "absent")}, nil); err == nil {
		t.Error("an absent file is no error")
	}
	if _, err := pretraining.Open([]string{t.TempDir()}, nil); err == nil {
		t.Error("a folder is no error")
	}
}

// FuzzCorpus: any file either fails with an error or deals valid batches.
func FuzzCorpus(f *testing.F) {
	f.Add([]byte(small(5)))
	f.Add([]byte("w01\r\n\r\nw02\r\n"))
	f.Add([]byte("w01 \xff\n"))
	f.Add([]byte("\xef\xbb\xbfw01\n\n\u2028\n\nw02 w03\u00a0\n\n\x00\n\nw00\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := pretraining.Open([]string{write(t, "text", string(text))}, nil)
		if err != nil {
			return
		}
		defer c.Close()
		tok := words(t)
		config := bert.Defaults()
		config.VocabSize = tok.Vocab().Len()
		s, err := pretraining.NewSource(c, tok, options())
		if err != nil {
			return
		}
		for range 3 {
			b, err := s.Next()
			if err != nil {
				return
			}
			if err := b.Validate(config, bert.Head{Task: bert.Pretraining}, true); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	path := reference.Path(b, "data", "corpus", "wiki_en.txt")
	for b.Loop() {
		c, err := pretraining.Open([]string{path}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(c.Bytes())
		c.Close()
	}
}
