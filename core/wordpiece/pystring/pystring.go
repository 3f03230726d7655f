// Package pystring has the few methods of Python's str that BERT's reference programs use: lower, split and isspace.
// Go's own functions differ from them for a handful of characters, and each of those can change a token or a score.
//
// Sources: CPython, Objects/unicodeobject.c (handle_capital_sigma, lower_ucs4) and Objects/unicodetype_db.h;
// Unicode Standard, section 3.13, Default Case Algorithms. Characters that a Unicode edition newer than Go's tables
// has assigned count as unassigned.
package pystring

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lower returns s in lower case as str.lower does: full case mapping, so İ becomes i and a combining dot above, and
// Σ at the end of a word becomes ς.
func Lower(s string) string {
	ascii := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == 'Σ' && FinalSigma(s, i, nil):
			b.WriteRune('ς')
		case r == 'İ':
			b.WriteString("i\u0307")
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// FinalSigma reports whether the Σ at s[i:] ends a word: a cased character goes before it and none comes after it,
// not counting characters that case ignores. Characters for which skip is true count as absent; skip may be nil.
func FinalSigma(s string, i int, skip func(rune) bool) bool {
	ignored := func(r rune) bool { return skip != nil && skip(r) || caseIgnorable(r) }
	before := false
	for rest := s[:i]; rest != ""; {
		r, size := utf8.DecodeLastRuneInString(rest)
		if !ignored(r) {
			before = cased(r)
			break
		}
		rest = rest[:len(rest)-size]
	}
	if !before {
		return false
	}
	for _, r := range s[i+len("Σ"):] {
		if !ignored(r) {
			return !cased(r)
		}
	}
	return true
}

// cased is Unicode's derived property Cased (definition D135).
func cased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Uppercase, unicode.Other_Lowercase)
}

// caseIgnorable is Unicode's derived property Case_Ignorable (definition D136): marks, format characters,
// modifiers, and punctuation that stands inside words, which is Word_Break = MidLetter, MidNumLet or Single_Quote.
func caseIgnorable(r rune) bool {
	switch r {
	case '\'', '.', ':', '·', '\u0387', '\u055f', '\u05f4', '‘', '’', '\u2024', '\u2027', '\ufe13', '\ufe52', '\ufe55', '\uff07',
		'\uff0e', '\uff1a':
		return true
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

// IsSpace reports whether str.isspace holds for the character: Unicode's white space, and the four information
// separators, which unicode.IsSpace leaves out.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// Fields returns the words of s between white space, as str.split() does.
func Fields(s string) []string { return strings.FieldsFunc(s, IsSpace) }
