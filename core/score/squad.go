// Package score has the metrics of the tasks: pure functions from predictions and gold answers to numbers.
//
// SQuAD's and CMRC's are on the scale 0 to 100, as their official programs print them; all others are fractions or
// coefficients, 0 to 1 or -1 to 1.
package score

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"

	"harness.invalid/core/wordpiece/pystring"
)

// ErrNone is wrapped by the error of a metric without data.
var ErrNone = errors.New("nothing to score")

// Question is the part of a question that SQuAD's score needs.
type Question struct {
	ID      string
	Answers []string // gold answers, at least one
}

// QuestionScore is the score of one answer.
type QuestionScore struct {
	ID         string
	ExactMatch bool
	F1         float64 // 0 to 1
	Missing    bool    // there is no prediction; it counts as wrong
}

// SQuADScore is the result of SQuAD.
type SQuADScore struct {
	ExactMatch float64 // mean over all questions, 0 to 100
	F1         float64 // mean over all questions, 0 to 100
	Total      int     // questions
	Missing    int     // questions without a prediction
	Questions  []QuestionScore
}

// SQuAD scores predictions, by question's id, as the official program of SQuAD v1.1 does: a question's score is the
// best over its gold answers.
//
// Source: evaluate-v1.1.py (SQuAD-explorer; allenai/bi-att-flow, squad/evaluate-v1.1.py).
func SQuAD(questions iter.Seq[Question], predictions map[string]string) (SQuADScore, error) {
	var s SQuADScore
	var exact int
	var f1 float64
	for q := range questions {
		if len(q.Answers) == 0 {
			return SQuADScore{}, fmt.Errorf("question %s: no gold answer, want one or more", q.ID)
		}
		qs := QuestionScore{ID: q.ID}
		prediction, ok := predictions[q.ID]
		if ok {
			for _, gold := range q.Answers {
				qs.ExactMatch = qs.ExactMatch || ExactMatch(prediction, gold)
				qs.F1 = max(qs.F1, TokenF1(prediction, gold))
			}
		} else {
			qs.Missing = true
			s.Missing++
		}
		if qs.ExactMatch {
			exact++
		}
		f1 += qs.F1
		s.Questions = append(s.Questions, qs)
	}
	s.Total = len(s.Questions)
	if s.Total == 0 {
		return SQuADScore{}, fmt.Errorf("squad: no question: %w", ErrNone)
	}
	s.ExactMatch = 100 * float64(exact) / float64(s.Total)
	s.F1 = 100 * f1 / float64(s.Total)
	return s, nil
}

// ExactMatch reports whether two answers are equal after normalisation.
func ExactMatch(prediction, gold string) bool {
	return NormalizeAnswer(prediction) == NormalizeAnswer(gold)
}

// TokenF1 is the harmonic mean of precision and recall of the prediction's words, as a multiset, in the gold
// answer's, once both are normalised. It is 0 when no word is common, even when both answers are empty.
func TokenF1(prediction, gold string) float64 {
	p, g := strings.Fields(NormalizeAnswer(prediction)), strings.Fields(NormalizeAnswer(gold))
	count := make(map[string]int, len(g))
	for _, word := range g {
		count[word]++
	}
	same := 0
	for _, word := range p {
		if count[word] > 0 {
			count[word]--
			same++
		}
	}
	if same == 0 {
		return 0
	}
	precision, recall := float64(same)/float64(len(p)), float64(same)/float64(len(g))
	return float64(2*precision*recall) / (precision + recall)
}

// NormalizeAnswer is normalize_answer: lower case, without ASCII punctuation, without the words a, an and the, one
// space between words.
func NormalizeAnswer(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)) {
			return -1
		}
		return r
	}, pystring.Lower(s))
	return strings.Join(pystring.Fields(withoutArticles(s)), " ")
}

// withoutArticles replaces what Python's \b(a|an|the)\b matches by a space: runs of word characters that are an
// article. Marks are no word characters to Python, so a decomposed á loses its a.
func withoutArticles(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	start := -1 // of the run of word characters that is being read
	flush := func(end int) {
		if start < 0 {
			return
		}
		switch word := s[start:end]; word {
		case "a", "an", "the":
			b.WriteByte(' ')
		default:
			b.WriteString(word)
		}
		start = -1
	}
	for i, r := range s {
		if wordCharacter(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		flush(i)
		b.WriteRune(r)
	}
	flush(len(s))
	return b.String()
}

// wordCharacter is \w of Python's re for str: isalnum() or the underscore.
func wordCharacter(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
