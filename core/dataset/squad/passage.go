package squad

import (
	"strings"
	"unicode/utf8"

	"harness.invalid/core/wordpiece"
)

// passage is a paragraph's context in words and tokens, shared by its questions.
type passage struct {
	words      []string // between white space
	ids        []int32  // of the tokens of all words
	wordOf     []int32  // token to word
	firstToken []int32  // word to token
}

// isSpace is is_whitespace of run_squad.py: what separates words of a context. Other white space is part of a word, as published.
func isSpace(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' || r == 0x202f }

func newPassage(context string, t *wordpiece.Tokenizer) *passage {
	p := &passage{words: strings.FieldsFunc(context, isSpace)}
	for i, word := range p.words {
		p.firstToken = append(p.firstToken, int32(len(p.ids)))
		p.ids = t.AppendIDs(p.ids, word)
		for len(p.wordOf) < len(p.ids) {
			p.wordOf = append(p.wordOf, int32(i))
		}
	}
	return p
}

// text returns words i to j with one space between them.
func (p *passage) text(i, j int) string { return strings.Join(p.words[i:j+1], " ") }

// wordOfCharacters returns for each character of the context the index of its word; of white space, that of the word before, -1 before the first.
func wordOfCharacters(context string) []int32 {
	index := make([]int32, 0, utf8.RuneCountInString(context))
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
