package score

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"harness.invalid/core/wordpiece/pystring"
)

// CMRC scores predictions of Chinese answers, by question's id, as the official program of CMRC 2018 does, which is
// used for DRCD as well. F1 is of the longest run that prediction and answer have in common, in Chinese characters
// and words of other scripts; a question's score is the best over its gold answers.
//
// One thing is left out: before it cuts the words of other scripts, nltk finds the sentences that they form, with a
// trained model. That moves a full stop in the middle of an answer only.
//
// Source: ymcui/cmrc2018, squad-style-data, cmrc2018_evaluate.py; ymcui/Chinese-BERT-wwm, cmrc2018_drcd_evaluate.py.
func CMRC(questions iter.Seq[Question], predictions map[string]string) (SQuADScore, error) {
	var s SQuADScore
	for q := range questions {
		if len(q.Answers) == 0 {
			return SQuADScore{}, fmt.Errorf("question %s: no gold answer, want one or more", q.ID)
		}
		qs := QuestionScore{ID: q.ID}
		if prediction, ok := predictions[q.ID]; ok {
			for _, gold := range q.Answers {
				qs.ExactMatch = qs.ExactMatch || withoutPunctuation(prediction) == withoutPunctuation(gold)
				qs.F1 = max(qs.F1, RunF1(prediction, gold))
			}
		} else {
			qs.Missing = true
			s.Missing++
		}
		s.add(qs)
	}
	if s.Total == 0 {
		return SQuADScore{}, fmt.Errorf("cmrc: no question: %w", ErrNone)
	}
	s.mean()
	return s, nil
}

// RunF1 is calc_f1_score: 2·precision·recall / (precision + recall), where both are shares of the longest common
// run of segments.
func RunF1(prediction, gold string) float64 {
	p, g := segments(prediction), segments(gold)
	n := longestRun(g, p)
	if n == 0 {
		return 0
	}
	precision, recall := float64(n)/float64(len(p)), float64(n)/float64(len(g))
	return float64(2*precision*recall) / (precision + recall)
}

// longestRun is the length of the longest list that both have in them without gaps: find_lcs.
func longestRun(a, b []string) int {
	row := make([]int, len(b)+1) // common run that ends before i and j
	most := 0
	for i := range a {
		for j := len(b); j > 0; j-- {
			if a[i] == b[j-1] {
				row[j] = row[j-1] + 1
				most = max(most, row[j])
			} else {
				row[j] = 0
			}
		}
	}
	return most
}

// punctuation is sp_char of the program. Its …… has two characters and so never matches one.
const punctuation = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"

// withoutPunctuation is remove_punctuation.
func withoutPunctuation(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(punctuation, r) {
			return -1
		}
		return r
	}, lowerStrip(s))
}

func lowerStrip(s string) string { return strings.TrimFunc(pystring.Lower(s), pystring.IsSpace) }

// segments is mixed_segmentation with rm_punc: Chinese characters, and the words of what lies between them.
func segments(s string) []string {
	var list []string
	var other strings.Builder
	flush := func() {
		if other.Len() > 0 {
			list = append(list, treebank(other.String())...)
			other.Reset()
		}
	}
	for _, r := range lowerStrip(s) {
		switch {
		case strings.ContainsRune(punctuation, r):
		case 0x4e00 <= r && r <= 0x9fa5:
			flush()
			list = append(list, string(r))
		default:
			other.WriteRune(r)
		}
	}
	flush()
	return list
}

// rule rewrites text.
type rule struct {
	pattern *regexp.Regexp
	by      string
}

func rules(list ...string) []rule {
	var out []rule
	for i := 0; i < len(list); i += 2 {
		out = append(out, rule{regexp.MustCompile(list[i]), list[i+1]})
	}
	return out
}

// The rules of nltk's NLTKWordTokenizer (nltk/tokenize/destructive.py), in their order. What they say of capitals
// is left out: text is lower case.
var (
	openings = rules("([«“‘„]|[`]+)", " $1 ", `^"`, "``", "(``)", " $1 ", `([ \(\[{<])("|'{2})`, "$1 `` ")
	apart    = rules(
		`([^\.])(\.)([\]\)}>"'»”’ ]*)\s*$`, "$1 $2 $3 ", `([:,])([^\d])`, " $1 $2", `([:,])$`, " $1 ", `(\.{2,})`, " $1 ", `([;@#$%&])`, " $1 ",
		`([^\.])(\.)([\]\)}>"']*)\s*$`, "$1 $2$3 ", `([?!])`, " $1 ", `([^'])' `, "$1 ' ", `([*])`, " $1 ",
		`([\]\[\(\)\{\}<>])`, " $1 ", `(--)`, " $1 ")
	endings = rules(`([»”’])`, " $1 ", `('')`, " $1 ", `"`, " '' ", `([^' ])('s|'m|'d|') `, "$1 $2 ", `([^' ])('ll|'re|'ve|n't) `, "$1 $2 ")
	// contractions are words that are two.
	contractions = []struct{ first, second string }{{"can", "not"}, {"d", "'ye"}, {"gim", "me"}, {"gon", "na"}, {"got", "ta"},
		{"lem", "me"}, {"more", "'n"},
		{"wan", "na"}, {"'t", "is"}, {"'t", "was"}}
)

// treebank cuts text into words as the Penn Treebank does.
func treebank(text string) []string {
	for _, r := range openings {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	text = openQuote(text)
	for _, r := range apart {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	text = " " + text + " "
	for _, r := range endings {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	for _, c := range contractions {
		text = part(text, c.first, c.second)
	}
	return pystring.Fields(text)
}

// openQuote is the rule (?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b, which looks ahead: a quote goes apart from a word of
// one character, unless it begins the ending of a contraction.
func openQuote(text string) string {
	var b strings.Builder
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "'")
		b.WriteString(before)
		if !found {
			break
		}
		b.WriteByte('\'')
		r, size := utf8.DecodeRuneInString(after)
		contraction := slices.ContainsFunc([]string{"re", "ve", "ll", "m", "t", "s", "d", "n"},
			func(c string) bool { return strings.HasPrefix(after, c) })
		if size > 0 && wordCharacter(r) && !contraction && !begins(after[size:]) {
			b.WriteByte(' ')
		}
		rest = after
	}
	return b.String()
}

// part puts space around the halves of a word that is two: at the edges of a word, before white space alone for
// wanna, and behind a space for 'tis and 'twas.
func part(text, first, second string) string {
	word := first + second
	if !strings.Contains(text, word) {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		i := strings.Index(rest, word)
		if i < 0 {
			b.WriteString(rest)
			break
		}
		before, after := text[:len(text)-len(rest)+i], rest[i+len(word):]
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		edges := (before == "" || !wordCharacter(last)) && !begins(after)
		switch {
		case first == "'t":
			edges = last == ' ' && !begins(after)
		case word == "wanna":
			edges = edges && after != "" && pystring.IsSpace(next)
		}
		b.WriteString(rest[:i])
		if edges {
			b.WriteString(" " + first + " " + second + " ")
		} else {
			b.WriteString(word)
		}
		rest = after
	}
	return b.String()
}

// begins reports whether text begins with a character of a word.
func begins(text string) bool {
	r, size := utf8.DecodeRuneInString(text)
	return size > 0 && wordCharacter(r)
}
