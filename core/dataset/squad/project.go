package squad

import (
	"strings"
	"unicode/utf8"

	"harness.invalid/core/wordpiece"
)

// project returns the part of words, the passage's own spelling, that answer stands for, which has been through the
// tokenizer: get_final_text of run_squad.py. With words "Steve Smith's" and answer "steve smith" that is "Steve
// Smith".
//
// The heuristic: cut words into basic tokens and look for the answer among them; then, if both have the same number
// of characters without spaces, the n-th of one is the n-th of the other. Where that fails (accents that decompose
// into nothing, an unknown token) all of words is the answer.
func project(answer, words string, basic *wordpiece.Basic) string {
	tokens := strings.Join(basic.Tokens(words), " ")
	at := strings.Index(tokens, answer)
	if at < 0 || answer == "" {
		return words
	}
	original := withoutSpaces(words)
	if len(original) != len(withoutSpaces(tokens)) {
		return words
	}
	// The answer, like every row of tokens, starts and ends with a character that is not a space; the rank of the first
	// counts those before it.
	first := len(withoutSpaces(tokens[:at]))
	last := first + len(withoutSpaces(answer)) - 1
	_, size := utf8.DecodeRuneInString(words[original[last]:])
	return words[original[first] : original[last]+size]
}

// withoutSpaces returns the byte offsets of all characters of the text that are not spaces.
func withoutSpaces(text string) []int {
	offsets := make([]int, 0, len(text))
	for i, r := range text {
		if r != ' ' {
			offsets = append(offsets, i)
		}
	}
	return offsets
}
