package wordpiece

import (
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"harness.invalid/core/wordpiece/pystring"
)

// Basic cuts text into words: the BasicTokenizer of the references. It may be used by many goroutines.
type Basic struct {
	options Options
	bytes   [256]class // of ASCII, and wide for the rest
	fold    [256]byte  // normal form of ASCII; other bytes stay
	pages   [pages]atomic.Pointer[page]
	scratch sync.Pool // of *scratch
}

// NewBasic returns the Basic of the options; MaxCharsPerWord has no meaning for it.
func NewBasic(o Options) *Basic {
	b := &Basic{options: o}
	b.scratch.New = func() any { return new(scratch) }
	for i := range b.bytes {
		b.bytes[i], b.fold[i] = wide, byte(i)
		if i >= utf8.RuneSelf {
			continue
		}
		c, form := o.classify(rune(i))
		b.bytes[i] = c
		if form != "" {
			b.fold[i] = form[0]
		}
	}
	return b
}

// Tokens returns the words of the text in their normal form.
func (b *Basic) Tokens(text string) []string {
	var tokens []string
	w := b.split(text)
	for w.next() {
		tokens = append(tokens, w.word())
	}
	w.close()
	return tokens
}

func (b *Basic) split(text string) words { return words{basic: b, text: text} }

// char returns a character's class and normal form.
func (b *Basic) char(r rune) (char, *page) {
	slot := &b.pages[r>>8]
	p := slot.Load()
	if p == nil {
		// Two goroutines may both make the page; it is the same page.
		p = newPage(b.options, int(r>>8))
		slot.Store(p)
	}
	return p.chars[r&255], p
}

// dropped reports whether cleaning removes the character, before lower-casing.
func (b *Basic) dropped(r rune) bool {
	c, form := Options{DropUnassigned: b.options.DropUnassigned}.classify(r)
	return c == drop && form == ""
}

// words iterates over the words of a text. ASCII words are used in place; only others are copied.
type words struct {
	basic *Basic
	text  string
	pos   int // of what is not read yet

	// The word: text[start:end]. When plain, its normal form is fold of its bytes; otherwise the scratch has it.
	start, end int
	plain      bool
	*scratch
}

type scratch struct {
	norm  []byte // normal form
	from  []int  // for each byte of norm, where the character starts in the text that it comes from
	chars int    // characters in norm
}

// next moves to the next word and reports whether there is one.
func (w *words) next() bool {
	bytes, text := &w.basic.bytes, w.text
	for i := w.pos; i < len(text); i++ {
		switch bytes[text[i]] {
		case alone:
			w.start, w.end, w.pos, w.plain = i, i+1, i+1, true
			return true
		case part:
			j := i + 1
			for j < len(text) && bytes[text[j]] == part {
				j++
			}
			if j == len(text) || bytes[text[j]] == gap || bytes[text[j]] == alone {
				w.start, w.end, w.pos, w.plain = i, j, j, true
				return true
			}
			fallthrough
		case wide:
			if w.compose(i) {
				return true
			}
			i = w.pos - 1
		}
	}
	w.pos = len(text)
	return false
}

// compose reads the word at text[i:] character by character. If nothing is left of it, it returns false, with pos
// behind what it read.
func (w *words) compose(i int) bool {
	if w.scratch == nil {
		w.scratch = w.basic.scratch.Get().(*scratch)
	}
	w.norm, w.from, w.chars, w.plain = w.norm[:0], w.from[:0], 0, false
	for i < len(w.text) {
		r, size := utf8.DecodeRuneInString(w.text[i:])
		c, page := w.basic.char(r)
		switch c.class {
		case drop:
			i += size
			continue
		case gap:
			w.pos = i + size
			return w.chars > 0
		case alone:
			if w.chars > 0 {
				w.pos = i
				return true
			}
		}
		if w.chars == 0 {
			w.start = i
		}
		form := page.text[c.start : c.start+uint16(c.size)]
		if c.class == sigma && pystring.FinalSigma(w.text, i, w.basic.dropped) {
			form = "ς"
		}
		w.norm = append(w.norm, form...)
		for range len(form) {
			w.from = append(w.from, i)
		}
		w.chars += int(c.runes)
		i += size
		w.end, w.pos = i, i
		if c.class == alone {
			return true
		}
	}
	w.pos = i
	return w.chars > 0
}

// word returns the normal form of the word.
func (w *words) word() string {
	if !w.plain {
		return string(w.norm)
	}
	s, fold := w.text[w.start:w.end], &w.basic.fold
	for i := range len(s) {
		if fold[s[i]] != s[i] {
			folded := []byte(s)
			for j := i; j < len(s); j++ {
				folded[j] = fold[s[j]]
			}
			return string(folded)
		}
	}
	return s
}

// startOf returns where in the text the character starts that byte i of the normal form comes from.
func (w *words) startOf(i int) int {
	if w.plain {
		return w.start + i
	}
	return w.from[i]
}

// endOf returns where in the text the character ends that byte i of the normal form comes from.
func (w *words) endOf(i int) int {
	if w.plain {
		return w.start + i + 1
	}
	_, size := utf8.DecodeRuneInString(w.text[w.from[i]:])
	return w.from[i] + size
}

// close returns the scratch to the pool, unless a huge word has made it too large to keep.
func (w *words) close() {
	if w.scratch != nil && cap(w.norm) <= 1<<16 {
		w.basic.scratch.Put(w.scratch)
	}
	w.scratch = nil
}
