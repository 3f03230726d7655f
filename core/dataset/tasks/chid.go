package tasks

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/wordpiece"
)

// The form of ChID is that of CLUE's baseline (CLUEbenchmark/CLUE, baselines/models_pytorch/mrc_pytorch,
// preprocess/CHID_preprocess.py): a question is a blank, and each candidate is read as
//
//	[CLS] candidate [SEP] what is before the blank [unused1] what is behind it [SEP]
//
// all of type 0, with as much of the text on either side of the blank as fits. Every other blank is four times
// [MASK], as idioms have four characters.

// blank marks the place of the idiom in question, otherBlank that of any other idiom.
const (
	blank      = "\ue000"
	otherBlank = "\ue001"
)

// idiomLen is how many characters most idioms have, and all of ChID's.
const idiomLen = 4

// unused1 stands for the blank in a sequence; in a vocabulary without it, which was learned from text, [MASK] does.
const unused1 = "[unused1]"

// plainMarks replaces quotation marks, dashes and dots as the baseline does.
var plainMarks = strings.NewReplacer("“", `"`, "”", `"`, "——", "--", "—", "-", "―", "-", "…", "...", "‘", "'", "’", "'")

// idioms reads ChID: lines of texts with #idiom000001# in their blanks and candidates for all of them. The answers
// are by blank in the file's neighbour NAME_answer.json, as CLUE distributes them, or in the line (answer), as
// FewCLUE does. A choice reads idiom, text.
func idioms(r *reader, text []byte) error {
	answers, err := r.answers()
	if err != nil {
		return err
	}
	return r.objects(text, func(fields map[string]json.RawMessage) error {
		var candidates, contents []string
		if err := valueOf(fields["candidates"], &candidates); err != nil {
			return fmt.Errorf("candidates: want a list of idioms: %w", err)
		}
		var content string
		if json.Unmarshal(fields["content"], &content) == nil {
			contents = []string{content}
		} else if err := valueOf(fields["content"], &contents); err != nil {
			return fmt.Errorf("content: want a text or a list of texts: %w", err)
		}
		for _, content := range contents {
			found := tags(content)
			for _, tag := range found {
				label, known := answers[tag]
				if raw, ok := fields["answer"]; ok {
					if err := json.Unmarshal(raw, &label); err != nil {
						return fmt.Errorf("answer is %.20s, want the number of a candidate", raw)
					}
					known = true
				}
				switch {
				case !known && answers != nil:
					return fmt.Errorf("%s has no answer in %s", tag, r.answersPath())
				case !known:
					label = -1
				case label < 0 || label >= len(candidates):
					return fmt.Errorf("the answer to %s is %d, want 0 to %d", tag, label, len(candidates)-1)
				}
				id := tag
				if tag == "#idiom#" {
					if id, _, err = textOf(fields, "id"); err != nil {
						return err
					}
				}
				cloze := strings.Replace(content, tag, blank, 1)
				for _, other := range found {
					cloze = strings.ReplaceAll(cloze, other, otherBlank)
				}
				cloze = plainMarks.Replace(cloze)
				if err := r.choose(id, candidates, label, func(choice string) []string { return []string{choice, cloze} }); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// answersPath is the file of answers beside a file of ChID.
func (r *reader) answersPath() string {
	ext := filepath.Ext(r.path)
	return strings.TrimSuffix(r.path, ext) + "_answer" + ext
}

// answers reads the file of answers; nil where there is none.
func (r *reader) answers() (map[string]int, error) {
	path := r.answersPath()
	text, err := bounded.ReadFile(path, 4*bounded.GiB)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	answers := map[string]int{}
	if err := valueOf(text, &answers); err != nil {
		return nil, fmt.Errorf("%s: want an object with the number of a candidate for each blank: %w", path, err)
	}
	r.beside = append(r.beside, sha256.Sum256(text))
	return answers, nil
}

// tags lists the blanks of a text, each once: #idiom, digits, #.
func tags(text string) []string {
	var list []string
	for rest := text; ; {
		i := strings.Index(rest, "#idiom")
		if i < 0 {
			return list
		}
		rest = rest[i:]
		n := len("#idiom")
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n < len(rest) && rest[n] == '#' {
			if tag := rest[:n+1]; !slices.Contains(list, tag) {
				list = append(list, tag)
			}
			n++
		}
		rest = rest[n:]
	}
}

// addCloze makes the sequence of an idiom and a text with its blank.
func (s *Set) addCloze(t *wordpiece.Tokenizer, special map[string]int32, idiom, text string) {
	const other = -1 // stands for a blank that is not asked for: one token until the text is cut to length
	tokens := func(text string) []int32 {
		var ids []int32
		for i, part := range strings.Split(text, otherBlank) {
			if i > 0 {
				ids = append(ids, other)
			}
			ids = t.AppendIDs(ids, part)
		}
		return ids
	}
	choice := t.AppendIDs(nil, idiom)
	before, after, _ := strings.Cut(text, blank)
	room := max(0, s.MaxLength-4-max(idiomLen, len(choice))) // [CLS], two [SEP] and the blank
	left, right := around(tokens(before), tokens(after), room)
	expand := func(ids []int32) []int32 {
		var out []int32
		for _, id := range ids {
			if id == other {
				out = append(out, slices.Repeat([]int32{special[wordpiece.Mask]}, idiomLen)...)
			} else {
				out = append(out, id)
			}
		}
		return out
	}
	// Four tokens for one make both sides longer than they may be.
	wide := expand(left)
	left, right = wide[len(wide)-len(left):], expand(right)[:len(right)]
	mark, ok := t.Vocab().ID(unused1)
	if !ok {
		mark = special[wordpiece.Mask]
	}
	ids := append([]int32{special[wordpiece.Cls]}, choice[:min(len(choice), s.MaxLength-4)]...)
	ids = append(append(ids, special[wordpiece.Sep]), left...)
	ids = append(append(append(ids, mark), right...), special[wordpiece.Sep])
	s.sequences = append(s.sequences, sequence{ids: slices.Clip(ids), second: len(ids)})
}

// around cuts what is before and behind a blank to a number of tokens, half of them on either side as far as both
// have as many. It is add_tokens_for_around of CHID_preprocess.py.
func around(before, after []int32, n int) (left, right []int32) {
	l := n / 2
	r := n - l
	switch {
	case len(before) >= l && len(after) >= r:
	case len(before) <= l:
		l = len(before)
		r = min(n-l, len(after))
	default:
		r = len(after)
		l = min(n-r, len(before))
	}
	return before[len(before)-l:], after[:r]
}
