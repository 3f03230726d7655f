package squad

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"harness.invalid/core/wordpiece"
)

// passage is a paragraph's context in words and tokens, shared by its questions.
type passage struct {
	words      []string
	ids        []int32 // of the tokens of all words
	wordOf     []int32 // token to word
	firstToken []int32 // word to token

	context string // Chinese: an answer is a part of it
	starts  []int  // Chinese: of the words in it, in bytes
}

// isSpace is is_whitespace of run_squad.py: what separates words of a context. Other white space is part of a word,
// as published.
func isSpace(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' || r == 0x202f }

// alone reports whether a character is a word of its own in a Chinese passage: Chinese characters and punctuation
// of any width. Words of other scripts lie between them.
func alone(r rune) bool {
	return unicode.Is(unicode.Han, r) || unicode.IsPunct(r) || unicode.IsSymbol(r)
}

func newPassage(context string, t *wordpiece.Tokenizer, chinese bool) *passage {
	p := new(passage)
	if chinese {
		p.context = context
		p.cut(nil)
	} else {
		p.words = strings.FieldsFunc(context, isSpace)
	}
	for i, word := range p.words {
		p.firstToken = append(p.firstToken, int32(len(p.ids)))
		p.ids = t.AppendIDs(p.ids, word)
		for len(p.wordOf) < len(p.ids) {
			p.wordOf = append(p.wordOf, int32(i))
		}
	}
	return p
}

// cut sets the words of a Chinese passage, as the baselines of CMRC 2018 do (ymcui/Chinese-BERT-wwm,
// run_cmrc2018_drcd_baseline), and calls character with the word of each character, -1 for white space before the
// first.
func (p *passage) cut(character func(word int)) {
	words, starts := 0, []int(nil)
	inside := false // a word of several characters
	for i, r := range p.context {
		switch {
		case unicode.IsSpace(r):
			inside = false
		case alone(r):
			starts, inside = append(starts, i), false
			words++
		case !inside:
			starts, inside = append(starts, i), true
			words++
		}
		if character != nil {
			character(words - 1)
		}
	}
	p.starts = starts
	p.words = make([]string, len(starts))
	for w, start := range starts {
		end := len(p.context)
		if w+1 < len(starts) {
			end = starts[w+1]
		}
		p.words[w] = strings.TrimRightFunc(p.context[start:end], unicode.IsSpace)
	}
}

// text returns words i to j: with one space between them; Chinese as it is in the passage.
func (p *passage) text(i, j int) string {
	if p.starts != nil {
		return p.context[p.starts[i] : p.starts[j]+len(p.words[j])]
	}
	return strings.Join(p.words[i:j+1], " ")
}

// wordOfCharacters returns for each character of the context the index of its word; of white space, that of the
// word before, -1 before the first.
func (p *passage) wordOfCharacters(context string) []int32 {
	index := make([]int32, 0, utf8.RuneCountInString(context))
	if p.starts != nil {
		p.cut(func(word int) { index = append(index, int32(word)) })
		return index
	}
	word, space := int32(-1), true
	for _, r := range context {
		s := isSpace(r)
		if !s && space {
			word++
		}
		space = s
		index = append(index, word)
	}
	return index
}

// locate returns the place of an answer in the context, in characters: the given place if the answer is there, else
// the nearest occurrence, or -1 if there is none. Places in published Chinese files are off by a few characters.
func (p *passage) locate(answer string, given int) int {
	best, distance := -1, 0
	characters := 0
	for from := 0; ; {
		i := strings.Index(p.context[from:], answer)
		if i < 0 {
			return best
		}
		characters += utf8.RuneCountInString(p.context[from : from+i])
		if d := max(characters-given, given-characters); best < 0 || d < distance {
			best, distance = characters, d
		}
		_, size := utf8.DecodeRuneInString(p.context[from+i:])
		from += i + size
		characters++
	}
}
