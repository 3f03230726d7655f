package wordpiece

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
)

// Tokens with a meaning of their own, as google-research/bert names them. Their ids are where the vocabulary's file
// has them: BERT's own has [PAD] first and [UNK] at 100, others do not.
const (
	Pad  = "[PAD]"
	Unk  = "[UNK]"
	Cls  = "[CLS]"
	Sep  = "[SEP]"
	Mask = "[MASK]"
)

// Continuing is what a token starts with when it continues a word.
const Continuing = "##"

// ErrInvalid is wrapped by every error about the content of a vocabulary.
var ErrInvalid = errors.New("invalid vocabulary")

// Vocab is a list of distinct tokens; a token's id is its index. It is immutable and safe for concurrent use.
type Vocab struct {
	name   string
	tokens []string
	ids    map[string]int32
	trie   *trie
}

// NewVocab returns the vocabulary of tokens in the order of their ids. Errors call it name.
func NewVocab(name string, tokens []string) (*Vocab, error) {
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s: no token: %w", name, ErrInvalid)
	}
	if len(tokens) > math.MaxInt32 {
		return nil, fmt.Errorf("%s: %d tokens, ids have 32 bits: %w", name, len(tokens), ErrInvalid)
	}
	v := &Vocab{name: name, tokens: tokens, ids: make(map[string]int32, len(tokens))}
	for i, token := range tokens {
		if err := v.check(token); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %w", name, i+1, err, ErrInvalid)
		}
		v.ids[token] = int32(i)
	}
	v.trie = newTrie(tokens)
	return v, nil
}

func (v *Vocab) check(token string) error {
	if token == "" {
		return errors.New("empty token")
	}
	if !utf8.ValidString(token) {
		return fmt.Errorf("token %q is not UTF-8", token)
	}
	if strings.Contains(token, "\n") {
		return fmt.Errorf("token %q has a line break", token)
	}
	if strings.Trim(token, blanks) != token {
		return fmt.Errorf("token %q begins or ends with a space, which no line of a vocabulary can hold", token)
	}
	if first, ok := v.ids[token]; ok {
		return fmt.Errorf("token %q is on line %d already", token, first+1)
	}
	return nil
}

// blanks around a token in a file do not count.
const blanks = " \t\r"

// Load reads a vocab.txt: a token on each line, the first line's id is 0. Spaces, tabs and carriage returns around
// a token do not count.
func Load(path string) (*Vocab, error) {
	f, err := bounded.Open(path, 256*bounded.MiB)
	if err != nil {
		return nil, fmt.Errorf("vocabulary: %w", err)
	}
	defer f.Close()
	return Read(f, path)
}

// mostToken is the length of a line that is read.
const mostToken = 64 * bounded.KiB

// Read is Load from a stream, which errors call name.
func Read(r io.Reader, name string) (*Vocab, error) {
	var tokens []string
	for line, err := range bounded.Lines(r, mostToken) {
		if err != nil {
			return nil, fmt.Errorf("vocabulary %s: %w: want a token a line", name, err)
		}
		// Google's loader strips all of Unicode's white space and Hugging Face's only the line break. The
		// difference matters: U+2028 is a token of bert-base-chinese.
		tokens = append(tokens, strings.Trim(string(line.Text), blanks))
	}
	return NewVocab("vocabulary "+name, tokens)
}

// Len returns the number of tokens.
func (v *Vocab) Len() int { return len(v.tokens) }

// ID returns the id of a token and whether the vocabulary has it.
func (v *Vocab) ID(token string) (int32, bool) {
	id, ok := v.ids[token]
	return id, ok
}

// Token returns the token of an id, which must be within [0, Len).
func (v *Vocab) Token(id int32) string { return v.tokens[id] }

// Special returns the id of a required token; the error names the vocabulary's file.
func (v *Vocab) Special(token string) (int32, error) {
	id, ok := v.ids[token]
	if !ok {
		return 0, fmt.Errorf("%s: none of its %d tokens is %s: %w", v.name, len(v.tokens), token, ErrInvalid)
	}
	return id, nil
}

// WriteTo writes the vocabulary as a vocab.txt.
func (v *Vocab) WriteTo(w io.Writer) (int64, error) {
	var n int64
	b := bufio.NewWriter(w)
	for _, token := range v.tokens {
		b.WriteString(token)
		b.WriteByte('\n')
		n += int64(len(token)) + 1
	}
	return n, b.Flush()
}

// Save writes the vocabulary as a vocab.txt: under another name first, so that a reader of path finds the old file or
// the complete new one, even after a crash.
func (v *Vocab) Save(path string) error {
	err := durable.WriteFile(path, func(w io.Writer) error {
		_, err := v.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("vocabulary %s: %w", path, err)
	}
	return nil
}
