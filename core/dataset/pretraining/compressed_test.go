package pretraining_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"harness.invalid/core/bounded"
	"harness.invalid/core/dataset/pretraining"
)

// TestCompressed: a text reads the same from a compressed file.
func TestCompressed(t *testing.T) {
	temporary := t.TempDir() // of this test alone: other processes unpack text at the same time
	t.Setenv("TMPDIR", temporary)
	t.Setenv("TMP", temporary)
	const text = "w00 w01\nw02\n\nw03 w04\n"
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	z.Write([]byte(text[:10]))
	z.Close()
	z = gzip.NewWriter(&gz) // a second member, as pigz and cat make them
	z.Write([]byte(text[10:]))
	z.Close()
	e := must(zstd.NewWriter(&zst))
	e.Write([]byte(text))
	e.Close()
	// Python's bz2.compress of the same text.
	bz := must(base64.StdEncoding.DecodeString(bzip2Text))
	plain := open(t, write(t, "a.txt", text))
	for name, data := range map[string][]byte{"a.gz": gz.Bytes(), "a.zst": zst.Bytes(), "a.bz2": bz, "a.txt": []byte(text)} {
		path := write(t, name, string(data))
		c := open(t, path)
		if c.Digest() != plain.Digest() || c.Documents() != 2 || c.Sentences() != 3 || c.Bytes() != int64(len(text)) {
			t.Errorf("%s: %d documents, %d sentences, %d bytes, want 2, 3 and %d", name, c.Documents(), c.Sentences(), c.Bytes(), len(text))
		}
		r := must(pretraining.OpenText(path))
		if got := must(io.ReadAll(r)); string(got) != text {
			t.Errorf("%s: read %q", name, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if name == "a.txt" {
			continue
		}
		_, err := pretraining.Open([]string{write(t, "cut-"+name, string(data[:len(data)-5]))}, nil)
		if !errors.Is(err, pretraining.ErrInvalid) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s without its end: error is %v", name, err)
		}
	}
	// Text and compressed text are one corpus.
	both := open(t, write(t, "1.gz", gz.String()), write(t, "2.txt", text))
	if both.Documents() != 4 {
		t.Errorf("%d documents in two files, want 4", both.Documents())
	}
	left, err := filepath.Glob(filepath.Join(temporary, "harness-text-*"))
	if err != nil || len(left) > 0 && runtime.GOOS != "windows" {
		t.Errorf("files %v are left, %v", left, err)
	}
}

// TestBomb: a file of 130 KB that unpacks to 128 MiB, which no text does.
func TestBomb(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	line := append(bytes.Repeat([]byte("a "), 1<<15), '\n')
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	e := must(zstd.NewWriter(&zst))
	for range 2 << 10 {
		must(z.Write(line))
		must(e.Write(line))
	}
	z.Close()
	e.Close()
	for name, data := range map[string][]byte{"a.gz": gz.Bytes(), "a.zst": zst.Bytes()} {
		path := write(t, name, string(data))
		if _, err := pretraining.Open([]string{path}, nil); !errors.Is(err, bounded.ErrTooLarge) {
			t.Errorf("%s of %d bytes: %v", name, len(data), err)
		}
		r := must(pretraining.OpenText(path))
		if n, err := io.Copy(io.Discard, r); !errors.Is(err, bounded.ErrTooLarge) || n > 65<<20 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		r.Close()
	}
}

const bzip2Text = "QlpoOTFBWSZTWUyDg4gAAAhYgAAQQAB8AACAIAAhpppiEMCOjThuAgKkHxdyRThQkEyDg4g="
