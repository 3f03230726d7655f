package tasks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// winograd marks the noun with underscores and the pronoun with brackets, as CLUE's baseline does
// (classifier_pytorch, WscProcessor).
func winograd(fields map[string]json.RawMessage) ([]string, error) {
	text, ok, err := textOf(fields, "text")
	if err != nil || !ok {
		return nil, errors.Join(err, missing(ok, "text"))
	}
	var target struct {
		Noun    string `json:"span1_text"`
		NounAt  int    `json:"span1_index"`
		Pronoun string `json:"span2_text"`
		At      int    `json:"span2_index"`
	}
	if err := valueOf(fields["target"], &target); err != nil {
		return nil, fmt.Errorf("target: want an object with span1_text, span1_index, span2_text and span2_index: %w", err)
	}
	runes := []rune(text)
	type mark struct {
		at    int
		begin int // 0: the mark ends a span, and comes before one that begins there
		text  string
	}
	var marks []mark
	for _, s := range []struct {
		text, open, close string
		at                int
	}{{target.Noun, "_", "_", target.NounAt}, {target.Pronoun, "[", "]", target.At}} {
		n := utf8.RuneCountInString(s.text)
		if n == 0 || s.at < 0 || s.at > len(runes)-n {
			return nil, fmt.Errorf("%q is said to be at character %d, but the text has %d", s.text, s.at, len(runes))
		}
		marks = append(marks, mark{s.at, 1, s.open}, mark{s.at + n, 0, s.close})
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Or(a.at-b.at, a.begin-b.begin) })
	var out strings.Builder
	last := 0
	for _, m := range marks {
		out.WriteString(string(runes[last:m.at]))
		out.WriteString(m.text)
		last = m.at
	}
	out.WriteString(string(runes[last:]))
	return []string{out.String()}, nil
}
