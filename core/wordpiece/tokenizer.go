// Package wordpiece turns text into the ids of BERT's vocabulary and back, as google-research/bert and Hugging Face
// do, and trains vocabularies.
//
// Text goes through three steps in one pass. Cleaning drops control characters and invalid UTF-8; words are what
// white space, punctuation and Chinese characters leave between them, optionally in lower case and without accents
// (BasicTokenizer); each word becomes the longest token of the vocabulary that starts it, then the longest that
// continues it, and so on, or [UNK] if it comes to a place where no token fits (WordpieceTokenizer).
//
// Sources: google-research/bert, tokenization.py; Hugging Face transformers, tokenization_bert.py, and tokenizers,
// bert.rs. Special tokens in text get no special treatment, as with Google: "[MASK]" is three words.
package wordpiece

import "fmt"

// Options are the settings of the tokenizer's first step. Google and HuggingFace return the settings of the two
// references.
type Options struct {
	// Lower makes letters lower case.
	Lower bool
	// StripAccents decomposes characters (NFD) and drops the nonspacing marks (Mn). The references couple it to Lower.
	StripAccents bool
	// SplitChinese makes each Chinese character a word.
	SplitChinese bool
	// DropUnassigned drops private-use and unassigned characters (Co, Cn) together with control and format
	// characters (Cc, Cf).
	DropUnassigned bool
	// FinalSigma lowers Σ at the end of a word to ς, as Python's str.lower does, and not to σ.
	FinalSigma bool
	// MaxCharsPerWord is the length in characters beyond which a word is [UNK].
	MaxCharsPerWord int
}

// Google returns the options of google-research/bert; lower is its do_lower_case.
func Google(lower bool) Options {
	return Options{Lower: lower, StripAccents: lower, SplitChinese: true, FinalSigma: true, MaxCharsPerWord: 200}
}

// HuggingFace returns the options of Hugging Face's BertTokenizerFast; lower is its do_lower_case. It differs from
// Google's in long words, private-use characters and Greek capitals.
func HuggingFace(lower bool) Options {
	return Options{Lower: lower, StripAccents: lower, SplitChinese: true, DropUnassigned: true, MaxCharsPerWord: 100}
}

// Tokenizer cuts text into tokens of a vocabulary. It may be used by many goroutines.
type Tokenizer struct {
	vocab *Vocab
	basic *Basic
	nodes []node
	unk   int32
	max   int
}

// New returns a tokenizer. The vocabulary must have [UNK].
func New(v *Vocab, o Options) (*Tokenizer, error) {
	if o.MaxCharsPerWord < 1 {
		return nil, fmt.Errorf("tokenizer: words of at most %d characters, want 1 or more", o.MaxCharsPerWord)
	}
	unk, err := v.Special(Unk)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return &Tokenizer{vocab: v, basic: NewBasic(o), nodes: v.trie.nodes, unk: unk, max: o.MaxCharsPerWord}, nil
}

// Vocab returns the tokenizer's vocabulary.
func (t *Tokenizer) Vocab() *Vocab { return t.vocab }

// Basic returns the tokenizer's first step, which cuts text into words.
func (t *Tokenizer) Basic() *Basic { return t.basic }

// AppendIDs appends the ids of the text's tokens to dst. It allocates only when dst is too short.
func (t *Tokenizer) AppendIDs(dst []int32, text string) []int32 {
	w := t.basic.split(text)
	for w.next() {
		dst = t.appendWord(dst, &w)
	}
	w.close()
	return dst
}

// Piece is a token and where it is in the text.
type Piece struct {
	ID int32
	// Start and End bound the token in the text, in bytes: from its first character to behind its last. Characters
	// that normalisation drops in between are within; those at the token's ends, such as a combining accent, are
	// not. Tokens that come from one character, such as the jamo of a Hangul syllable, all have its bounds. A word
	// that is [UNK] is one piece.
	Start, End int
}

// AppendPieces appends the text's tokens with their places to dst. Starts and ends never decrease from token to token.
func (t *Tokenizer) AppendPieces(dst []Piece, text string) []Piece {
	var room [64]int32
	w := t.basic.split(text)
	for w.next() {
		ids := t.appendWord(room[:0], &w)
		if ids[0] == t.unk {
			dst = append(dst, Piece{t.unk, w.start, w.end})
			continue
		}
		at := 0
		for _, id := range ids {
			to := at + len(t.vocab.tokens[id])
			if at > 0 {
				to -= len(Continuing) // which matched nothing; the rest of a token is what it matched
			}
			dst = append(dst, Piece{id, w.startOf(at), w.endOf(to - 1)})
			at = to
		}
	}
	w.close()
	return dst
}

// Tokens returns the text's tokens for people to read.
func (t *Tokenizer) Tokens(text string) []string {
	var tokens []string
	for _, id := range t.AppendIDs(nil, text) {
		tokens = append(tokens, t.vocab.tokens[id])
	}
	return tokens
}

func (t *Tokenizer) appendWord(dst []int32, w *words) []int32 {
	if w.plain {
		if w.end-w.start > t.max {
			return append(dst, t.unk)
		}
		return match(t, dst, w.text[w.start:w.end])
	}
	if w.chars > t.max {
		return append(dst, t.unk)
	}
	return match(t, dst, w.norm)
}

// match appends the tokens of a word that is not empty. ASCII letters of the word may still be upper case.
func match[W string | []byte](t *Tokenizer, dst []int32, word W) []int32 {
	nodes, fold := t.nodes, &t.basic.fold
	mark := len(dst)
	state := beginning
	for at := 0; at < len(word); {
		id, end := none, at
		for i := at; i < len(word); i++ {
			next := nodes[state].base + int32(fold[word[i]])
			n := &nodes[next]
			if n.parent != state {
				break
			}
			state = next
			if n.id != none {
				id, end = n.id, i+1
			}
		}
		if id == none {
			return append(dst[:mark], t.unk)
		}
		dst = append(dst, id)
		at, state = end, continuing
	}
	return dst
}
