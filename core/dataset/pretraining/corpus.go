package pretraining

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/wordpiece"
)

// Corpus is a text of any size in one or many files, with an index of its documents: 16 bytes each, whatever their
// length. Documents end at a blank line and at the end of a file. Compressed files are unpacked first, into the
// folder for temporary files. It may be used by many goroutines.
type Corpus struct {
	files     []corpusFile
	documents []span
	sentences int64
	bytes     int64
	digest    string
}

type corpusFile struct {
	path      string
	file      *os.File
	start     int64  // offset in the row of all files
	temporary string // name to remove at the end; empty: none
}

// span is a document's place in the row of all files.
type span struct{ start, end int64 }

// Open reads the files once, from beginning to end, and keeps them open. Progress, if not nil, receives from time
// to time the bytes read and the total; for a compressed file first those of the file itself. A file without a
// sentence and text that is not UTF-8 are errors; the latter name the line.
func Open(paths []string, progress func(done, total int64)) (_ *Corpus, err error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("corpus: no file is named")
	}
	c := new(Corpus)
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for _, path := range paths {
		f, err := bounded.Open(path, mostText)
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("corpus: %s: %w", path, err), f.Close())
		}
		t, size, err := c.open(f, path, info.Size(), progress)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, *t)
		c.bytes += size
	}
	all := sha256.New()
	for i := range c.files {
		sum, err := c.index(i, progress)
		if err != nil {
			return nil, err
		}
		all.Write(sum)
	}
	c.digest = hex.EncodeToString(all.Sum(nil))
	return c, nil
}

// open returns the file to index and its size: f itself, or its decompressed content. It closes f if it returns
// another file, and on errors.
func (c *Corpus) open(f *os.File, path string, size int64, progress func(done, total int64)) (*corpusFile, int64, error) {
	d, err := decompress(f, path, func(done int64) {
		if progress != nil {
			progress(done, size)
		}
	})
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if d.format == "" {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, 0, errors.Join(fmt.Errorf("corpus: %w", err), f.Close())
		}
		return &corpusFile{path: path, file: f, start: c.bytes}, size, nil
	}
	t, name, err := inflate(d)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, 0, fmt.Errorf("corpus: %w", err)
	}
	end, err := t.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = t.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("corpus: %w", err), t.Close())
	}
	return &corpusFile{path: path, file: t, start: c.bytes, temporary: name}, end, nil
}

// index adds the documents of a file and returns the digest of its content.
func (c *Corpus) index(i int, progress func(done, total int64)) ([]byte, error) {
	f := &c.files[i]
	end := c.bytes
	if i+1 < len(c.files) {
		end = c.files[i+1].start
	}
	hash := sha256.New()
	text := &counter{w: hash}
	before := len(c.documents)
	var doc span
	var told int64
	// Only the initial size is read, so that a growing file does no harm.
	err := eachLine(io.TeeReader(io.LimitReader(f.file, end-f.start), text), f.path, func(line []byte, offset int64) {
		at := f.start + offset
		if progress != nil && at-told >= 1<<22 {
			told = at
			progress(at, c.bytes)
		}
		if isBlank(line) {
			if doc.end > 0 {
				c.documents = append(c.documents, doc)
			}
			doc = span{}
			return
		}
		if doc.end == 0 {
			doc.start = at
		}
		doc.end = at + int64(len(line))
		c.sentences++
	})
	if err != nil {
		return nil, err
	}
	if doc.end > 0 {
		c.documents = append(c.documents, doc)
	}
	if text.n != end-f.start {
		return nil, fmt.Errorf("corpus: %s: it had %d bytes and now has %d: it must not change while it is read", f.path, end-f.start, text.n)
	}
	if len(c.documents) == before {
		return nil, fmt.Errorf("text %s: no sentence: %w", f.path, ErrInvalid)
	}
	if progress != nil {
		progress(end, c.bytes)
	}
	return hash.Sum(nil), nil
}

// isBlank reports whether trim leaves nothing of the line.
func isBlank(line []byte) bool {
	if len(line) > 0 && line[0] > ' ' && line[0] < 0x80 {
		return false
	}
	return trim(string(line)) == ""
}

// Close closes the files.
func (c *Corpus) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.file.Close())
		if f.temporary != "" {
			errs = append(errs, os.Remove(f.temporary))
		}
	}
	return errors.Join(errs...)
}

// Documents returns the number of documents.
func (c *Corpus) Documents() int { return len(c.documents) }

// Sentences returns the number of lines that are not blank.
func (c *Corpus) Sentences() int64 { return c.sentences }

// Bytes returns the size of all files.
func (c *Corpus) Bytes() int64 { return c.bytes }

// Digest identifies the content: the SHA-256 of the files' SHA-256, in hexadecimal. The files' names do not matter,
// their order does.
func (c *Corpus) Digest() string { return c.digest }

// text appends the text of document i to buf.
func (c *Corpus) text(buf []byte, i int32) ([]byte, error) {
	d := c.documents[i]
	n := sort.Search(len(c.files), func(j int) bool { return c.files[j].start > d.start }) - 1
	f := &c.files[n]
	at, size := len(buf), int(d.end-d.start)
	buf = append(buf, make([]byte, size)...)
	if _, err := f.file.ReadAt(buf[at:], d.start-f.start); err != nil {
		if err == io.EOF {
			err = errors.New("the file is shorter than when it was opened")
		}
		return nil, fmt.Errorf("corpus: %s: read %d bytes at %d: %w", f.path, size, d.start-f.start, err)
	}
	return buf, nil
}

// read tokenizes documents and leaves out those without tokens.
func (c *Corpus) read(t *wordpiece.Tokenizer, which []int32) ([]document, error) {
	docs := make([]document, 0, len(which))
	var buf []byte
	for _, i := range which {
		var err error
		if buf, err = c.text(buf[:0], i); err != nil {
			return nil, err
		}
		var doc document
		// English takes a token for about four and a half bytes, and other text less often more.
		doc.ids = make([]int32, 0, len(buf)/4+8)
		doc.ends = make([]int, 0, bytes.Count(buf, []byte("\n"))+1)
		for line := range strings.Lines(string(buf)) {
			doc.add(t, line)
		}
		if len(doc.ends) > 0 {
			docs = append(docs, doc)
		}
	}
	return docs, nil
}
