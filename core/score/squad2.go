package score

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Odds measures a model's belief that a question has no answer: the difference of null_odds.json, or any number
// that grows with it.
type Odds struct {
	ID    string
	Value float64
}

// SQuAD2Score is the result of SQuAD v2.0.
type SQuAD2Score struct {
	SQuADScore                // over all questions that have a prediction: missing ones are not counted, as published
	HasAns, NoAns *SQuADScore // of the questions with and without an answer; nil where there are none
	Best          *BestThreshold
}

// BestThreshold is the best score reachable by answering "no answer" for odds above a threshold, and that
// threshold, for each metric.
type BestThreshold struct {
	ExactMatch, ExactMatchThreshold float64
	F1, F1Threshold                 float64
}

// SQuAD2 scores predictions as the official program of SQuAD v2.0 does. A question without a gold answer asks for
// the empty prediction. Where odds are given, questions whose odds are above threshold count as predicted to have
// none, and the best thresholds are searched; odds whose order matters for equal values have that of their list.
//
// Source: evaluate-v2.0.py (SQuAD-explorer).
func SQuAD2(questions iter.Seq[Question], predictions map[string]string, odds []Odds, threshold float64) (SQuAD2Score, error) {
	noAnswer := make(map[string]float64, len(odds))
	for _, o := range odds {
		noAnswer[o.ID] = o.Value
	}
	var s SQuAD2Score
	var hasAns, noAns SQuADScore
	raw := make(map[string]QuestionScore)
	answerable := make(map[string]bool)
	impossible := 0
	for q := range questions {
		answerable[q.ID] = len(q.Answers) > 0
		if len(q.Answers) == 0 {
			impossible++
		}
		prediction, ok := predictions[q.ID]
		if !ok {
			s.Missing++
			continue
		}
		qs := scoreSQuAD2(q, prediction)
		raw[q.ID] = qs
		if odds != nil {
			o, ok := noAnswer[q.ID]
			if !ok {
				return SQuAD2Score{}, fmt.Errorf("question %s has a prediction, but no odds of having no answer", q.ID)
			}
			if o > threshold {
				qs.ExactMatch, qs.F1 = !answerable[q.ID], 0
				if qs.ExactMatch {
					qs.F1 = 1
				}
			}
		}
		s.add(qs)
		if answerable[q.ID] {
			hasAns.add(qs)
		} else {
			noAns.add(qs)
		}
	}
	if len(raw) == 0 {
		return SQuAD2Score{}, fmt.Errorf("squad2: no question with a prediction: %w", ErrNone)
	}
	s.mean()
	if hasAns.Total > 0 {
		hasAns.mean()
		s.HasAns = &hasAns
	}
	if noAns.Total > 0 {
		noAns.mean()
		s.NoAns = &noAns
	}
	if odds != nil {
		search := func(of func(QuestionScore) float64) (float64, float64) {
			return bestThreshold(odds, raw, predictions, answerable, impossible, of)
		}
		s.Best = new(BestThreshold)
		s.Best.ExactMatch, s.Best.ExactMatchThreshold = search(exact)
		s.Best.F1, s.Best.F1Threshold = search(func(q QuestionScore) float64 { return q.F1 })
	}
	return s, nil
}

// add accumulates a question's scores; mean divides the sums.
func (s *SQuADScore) add(q QuestionScore) {
	s.ExactMatch += exact(q)
	s.F1 += q.F1
	s.Total++
	s.Questions = append(s.Questions, q)
}

func (s *SQuADScore) mean() {
	s.ExactMatch, s.F1 = 100*s.ExactMatch/float64(s.Total), 100*s.F1/float64(s.Total)
}

func exact(q QuestionScore) float64 {
	if q.ExactMatch {
		return 1
	}
	return 0
}

// scoreSQuAD2 is get_raw_scores for one question.
func scoreSQuAD2(q Question, prediction string) QuestionScore {
	qs := QuestionScore{ID: q.ID}
	golds := slices.DeleteFunc(slices.Clone(q.Answers), func(a string) bool { return NormalizeAnswer(a) == "" })
	if len(golds) == 0 {
		golds = []string{""}
	}
	for _, gold := range golds {
		qs.ExactMatch = qs.ExactMatch || ExactMatch(prediction, gold)
		qs.F1 = max(qs.F1, tokenF1OrEmpty(prediction, gold))
	}
	return qs
}

// tokenF1OrEmpty is compute_f1 of evaluate-v2.0.py: where an answer has no words, it is 1 if the other has none either.
func tokenF1OrEmpty(prediction, gold string) float64 {
	p, g := strings.Fields(NormalizeAnswer(prediction)), strings.Fields(NormalizeAnswer(gold))
	if len(p) == 0 || len(g) == 0 {
		if len(p) == len(g) {
			return 1
		}
		return 0
	}
	return TokenF1(prediction, gold)
}

// bestThreshold is find_best_thresh: it raises the threshold from below all odds, where every question counts as
// unanswerable.
func bestThreshold(odds []Odds, scores map[string]QuestionScore, predictions map[string]string, answerable map[string]bool,
	impossible int, of func(QuestionScore) float64) (best, threshold float64) {
	sorted := slices.Clone(odds)
	slices.SortStableFunc(sorted, func(a, b Odds) int { return cmp.Compare(a.Value, b.Value) })
	current := float64(impossible)
	best = current
	for _, o := range sorted {
		q, ok := scores[o.ID]
		if !ok {
			continue
		}
		switch {
		case answerable[o.ID]:
			current += of(q)
		case predictions[o.ID] != "":
			current--
		}
		if current > best {
			best, threshold = current, o.Value
		}
	}
	return 100 * best / float64(len(scores)), threshold
}
