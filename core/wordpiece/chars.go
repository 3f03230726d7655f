package wordpiece

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// class is the effect of a character on the current word.
type class uint8

const (
	part  class = iota // belongs to a word
	gap                // white space: ends a word
	alone              // punctuation or Chinese: ends a word and is one
	drop               // ignored
	sigma              // part of a word; Σ, whose lower case depends on its neighbours
	wide               // in the table of bytes only: not ASCII, decode it
)

// char is the class and normal form of a character. Pages of 256 characters are made on demand: text in one
// language needs a few of the 4,352.
type char struct {
	class class
	size  uint8  // bytes of the normal form
	runes uint8  // characters of the normal form
	start uint16 // of the normal form in the page's text
}

type page struct {
	chars [256]char
	text  string
}

// pages is the number of pages that hold all of Unicode.
const pages = (unicode.MaxRune + 1) / 256

func newPage(o Options, n int) *page {
	p := new(page)
	var text []byte
	for i := range p.chars {
		c, form := o.classify(rune(n*256 + i))
		p.chars[i] = char{class: c, size: uint8(len(form)), runes: uint8(utf8.RuneCountInString(form)), start: uint16(len(text))}
		text = append(text, form...)
	}
	p.text = string(text)
	return p
}

// classify returns the class of a character and its normal form. It looks at one character at a time, so with
// StripAccents marks that are kept (spacing ones, Mc) stay in the order of the text where full NFD could reorder
// them.
func (o Options) classify(r rune) (class, string) {
	switch {
	case r == 0 || r == unicode.ReplacementChar:
		return drop, ""
	// Python's split() also ends words at U+2028 and U+2029 (Zl, Zp), though _is_whitespace does not name them.
	case r == '\t' || r == '\n' || r == '\r' || unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp):
		return gap, ""
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs):
		return drop, ""
	case o.DropUnassigned && !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S):
		return drop, ""
	}
	form, c := string(r), part
	if o.Lower {
		switch {
		case r == 'İ':
			form = "i\u0307"
		case r == 'Σ' && o.FinalSigma:
			form, c = "σ", sigma
		default:
			form = string(unicode.ToLower(r))
		}
	}
	if o.StripAccents {
		form = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, norm.NFD.String(form))
	}
	if form == "" {
		return drop, ""
	}
	first, size := utf8.DecodeRuneInString(form)
	if o.SplitChinese && isChinese(r) || size == len(form) && isPunctuation(first) {
		c = alone
	}
	return c, form
}

// isChinese is _is_chinese_char: the blocks of CJK ideographs. Hangul, kana and bopomofo are not among them.
func isChinese(r rune) bool {
	return 0x4E00 <= r && r <= 0x9FFF || 0x3400 <= r && r <= 0x4DBF || 0x20000 <= r && r <= 0x2A6DF || 0x2A700 <= r && r <= 0x2B73F ||
		0x2B740 <= r && r <= 0x2B81F || 0x2B820 <= r && r <= 0x2CEAF || 0xF900 <= r && r <= 0xFAFF || 0x2F800 <= r && r <= 0x2FA1F
}

// isPunctuation is _is_punctuation: all ASCII that is neither letter, digit, space nor control, such as $ and ^
// which Unicode calls symbols, and Unicode's punctuation (P).
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return 33 <= r && r <= 47 || 58 <= r && r <= 64 || 91 <= r && r <= 96 || 123 <= r && r <= 126
	}
	return unicode.IsPunct(r)
}
