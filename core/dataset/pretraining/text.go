package pretraining

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"harness.invalid/core/wordpiece"
	"harness.invalid/core/wordpiece/pystring"
)

// ErrInvalid is wrapped by every error about the content of a text.
var ErrInvalid = errors.New("invalid text")

// document is a text in tokens. Its sentences follow each other in one slice, so that a run of sentences is a slice
// too.
type document struct {
	ids  []int32
	ends []int // sentence i is ids[ends[i-1]:ends[i]]
}

// sentences returns sentences i to j-1.
func (d *document) sentences(i, j int) []int32 {
	start := 0
	if i > 0 {
		start = d.ends[i-1]
	}
	return d.ids[start:d.ends[j-1]]
}

// add appends a sentence unless it has no tokens.
func (d *document) add(t *wordpiece.Tokenizer, sentence string) {
	n := len(d.ids)
	d.ids = t.AppendIDs(d.ids, sentence)
	if len(d.ids) > n {
		d.ends = append(d.ends, len(d.ids))
	}
}

// trim is Python's str.strip.
func trim(line string) string { return strings.TrimFunc(line, pystring.IsSpace) }

// eachLine calls yield for each line, without its line break, and the offset in bytes at which it starts. The line
// is valid during the call. Text that is not UTF-8 is an error; the published program silently drops the offending
// bytes.
func eachLine(r io.Reader, name string, yield func(line []byte, offset int64)) error {
	b := bufio.NewReaderSize(r, 1<<20)
	var long []byte // start of a line that exceeds the buffer
	var offset int64
	for number := 1; ; number++ {
		line, err := b.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			line, err = b.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("text %s:%d: %w", name, number, err)
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		size := int64(len(line))
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		} else if n == 0 && err == io.EOF {
			return nil
		}
		if !utf8.Valid(line) {
			return fmt.Errorf("text %s:%d:%d: byte %#02x is not UTF-8: %w", name, number, invalidAt(line)+1, line[invalidAt(line)], ErrInvalid)
		}
		yield(line, offset)
		if err == io.EOF {
			return nil
		}
		offset += size
		long = long[:0]
	}
}

// invalidAt returns the index of the first byte that does not belong to a character.
func invalidAt(line []byte) int {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(line)
}
