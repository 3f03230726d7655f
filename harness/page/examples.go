package page

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/score"
	"harness.invalid/harness/series"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// answers are the questions of a phase on which arms differ.
type answers struct {
	Phase    string
	Summary  []string // a sentence for each pair of arms
	Examples []example
	Disagree int // questions in all
}

// example is a question.
type example struct {
	ID, Question string
	// The passage around the answer: before it, the answer, after it.
	Before, Gold, After string
	Others              []string // other gold answers
	Arms                []armAnswer
}

// armAnswer is what the runs of an arm answered.
type armAnswer struct {
	Arm   string
	F1    string // mean over the seeds, %
	Class string
	Texts []string // distinct answers, with the seeds that gave them where they differ
}

// mostExamples is how many questions a page shows, the first openExamples of them unfolded.
const (
	mostExamples = 20
	openExamples = 3
)

// First are the examples that are not folded away.
func (a answers) First() []example { return a.Examples[:min(openExamples, len(a.Examples))] }

// Rest are those that are.
func (a answers) Rest() []example { return a.Examples[min(openExamples, len(a.Examples)):] }

// armScores is how an arm did on a question.
type armScores struct {
	f1    float64 // mean over seeds
	exact []bool  // by seed
	given []int   // by seed: which of texts
	texts []string
}

// disagreements finds the questions that one arm answers better than another. It skips phases whose questions or
// predictions no longer exist.
func disagreements(c *verdict.Comparison, records []*series.Record) ([]answers, error) {
	if len(c.Arms) < 2 {
		return nil, nil
	}
	var all []answers
	for i := range records[0].Recipe.Phases {
		p := &records[0].Recipe.Phases[i]
		if p.Task != bert.QuestionAnswering {
			continue
		}
		data, err := questions(records)
		if err != nil || data == nil {
			return nil, err
		}
		a, err := compareAnswers(c, records, p.Name, data)
		if err != nil {
			return nil, err
		}
		if a != nil {
			all = append(all, *a)
		}
	}
	return all, nil
}

// questions are those that the runs were evaluated on: the files of the recipe, or the generated one beside the
// runs; nil if they no longer exist.
func questions(records []*series.Record) (*squad.Data, error) {
	for _, r := range records {
		paths := r.Recipe.Data.Files.SQuAD.Dev
		if len(paths) == 0 {
			paths = []string{filepath.Join(filepath.Dir(r.Dir), "data", "dev.json")}
		}
		all := &squad.Data{}
		for _, path := range paths {
			data, err := squad.Read(path)
			if errors.Is(err, fs.ErrNotExist) {
				all = nil
				break
			}
			if err != nil {
				return nil, err
			}
			all.Articles = append(all.Articles, data.Articles...)
		}
		if all != nil {
			return all, nil
		}
	}
	return nil, nil
}

// givenAnswers are the answers of the arms' runs, with the seeds of the runs; nil if an arm has none.
func givenAnswers(
	c *verdict.Comparison, records []*series.Record, phase string,
) (predictions [][]results.Examples[string], seeds [][]uint64, err error) {
	predictions, seeds = make([][]results.Examples[string], len(c.Arms)), make([][]uint64, len(c.Arms))
	var last results.Examples[string]
	for i, a := range c.Arms {
		for _, r := range records {
			if r.Arm() != a.Arm {
				continue
			}
			given, err := r.Answers(phase, last)
			if err != nil {
				return nil, nil, err
			}
			if len(given.IDs) == 0 {
				continue
			}
			last = given
			predictions[i] = append(predictions[i], given)
			seeds[i] = append(seeds[i], r.Seed)
		}
		if len(predictions[i]) == 0 {
			return nil, nil, nil
		}
	}
	return predictions, seeds, nil
}

func compareAnswers(c *verdict.Comparison, records []*series.Record, phase string, data *squad.Data) (*answers, error) {
	predictions, seeds, err := givenAnswers(c, records, phase)
	if predictions == nil || err != nil {
		return nil, err
	}
	out := &answers{Phase: phase}
	type candidate struct {
		paragraph *squad.Paragraph
		question  *squad.Question
		spread    float64
	}
	var found []candidate
	total := 0
	pairs := make([][][2]int, len(c.Arms)) // places of the runs of the first arm and of this one under the same seed
	for i := range pairs {
		pairs[i] = pairedSeeds(seeds[0], seeds[i])
	}
	agree := make([][4]float64, len(c.Arms)) // against the first arm: both right, only the first, only the arm, neither; over common seeds
	scoresOf := func(q *squad.Question) []armScores {
		scores := make([]armScores, len(c.Arms))
		for i := range c.Arms {
			scores[i] = scoreArm(q, predictions[i])
		}
		return scores
	}
	for i := range data.Articles {
		for j := range data.Articles[i].Paragraphs {
			g := &data.Articles[i].Paragraphs[j]
			for k := range g.Questions {
				q := &g.Questions[k]
				if _, ok := predictions[0][0].At(q.ID, total); !ok || len(q.Answers) == 0 {
					continue
				}
				total++
				scores := scoresOf(q)
				low, high := 1.0, 0.0
				for i := range scores {
					low, high = min(low, scores[i].f1), max(high, scores[i].f1)
				}
				for i := 1; i < len(c.Arms); i++ {
					countAgreement(&agree[i], scores[0].exact, scores[i].exact, pairs[i])
				}
				if high > low {
					found = append(found, candidate{g, q, high - low})
				}
			}
		}
	}
	if total == 0 {
		return nil, nil // the predictions belong to other questions
	}
	out.Disagree = len(found)
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.spread, a.spread) })
	for _, f := range found[:min(len(found), mostExamples)] {
		out.Examples = append(out.Examples, newExample(c, f.paragraph, f.question, scoresOf(f.question), seeds))
	}
	for i := 1; i < len(c.Arms); i++ {
		n := agree[i][0] + agree[i][1] + agree[i][2] + agree[i][3]
		if n == 0 {
			continue
		}
		share := func(k int) string { return strconv.FormatFloat(100*agree[i][k]/n, 'f', 1, 64) + "%" }
		out.Summary = append(out.Summary, fmt.Sprintf("%d questions, %s and %s under the same seeds: both exactly right %s, "+
			"only %s %s, only %s %s, neither %s.",
			total, c.Arms[0].Arm, c.Arms[i].Arm, share(0), c.Arms[0].Arm, share(1), c.Arms[i].Arm, share(2), share(3)))
	}
	return out, nil
}

// mostSeeds is how many seeds are named beside an answer.
const mostSeeds = 8

// scoreArm scores the answers of an arm's runs to a question.
func scoreArm(q *squad.Question, predictions []results.Examples[string]) armScores {
	type scored struct {
		f1    float64
		exact bool
	}
	s := armScores{exact: make([]bool, 0, len(predictions)), given: make([]int, 0, len(predictions))}
	var known []scored // of texts: answers repeat
	place := 0
	if len(predictions) > 0 {
		place, _ = slices.BinarySearch(predictions[0].IDs, q.ID)
	}
	for _, given := range predictions {
		text, _ := given.At(q.ID, place)
		at := slices.Index(s.texts, text)
		if at < 0 {
			var a scored
			for _, gold := range q.Answers {
				a.f1 = max(a.f1, score.TokenF1(text, gold.Text))
				a.exact = a.exact || score.ExactMatch(text, gold.Text)
			}
			at, known, s.texts = len(known), append(known, a), append(s.texts, text)
		}
		s.f1 += known[at].f1 / float64(len(predictions))
		s.exact, s.given = append(s.exact, known[at].exact), append(s.given, at)
	}
	return s
}

// shown are the distinct answers, with the seeds that gave them where they differ.
func (s *armScores) shown(seeds []uint64) (list []string) {
	for at, text := range s.texts {
		if text == "" {
			text = "(no answer)"
		}
		if len(s.texts) > 1 {
			var of []string
			for i, given := range s.given {
				if given == at {
					of = append(of, strconv.FormatUint(seeds[i], 10))
				}
			}
			word := "seed "
			if len(of) > 1 {
				word = "seeds "
			}
			which := word + strings.Join(of, ", ")
			if len(of) > mostSeeds {
				which = fmt.Sprintf("%d of %d seeds", len(of), len(seeds))
			}
			text += " (" + which + ")"
		}
		list = append(list, text)
	}
	return list
}

// pairedSeeds are the places of the seeds that two lists have in common.
func pairedSeeds(a, b []uint64) (pairs [][2]int) {
	places := make(map[uint64]int, len(b))
	for j, seed := range b {
		places[seed] = j
	}
	for i, seed := range a {
		if j, ok := places[seed]; ok {
			pairs = append(pairs, [2]int{i, j})
		}
	}
	return pairs
}

func countAgreement(n *[4]float64, a, b []bool, pairs [][2]int) {
	for _, p := range pairs {
		switch {
		case a[p[0]] && b[p[1]]:
			n[0]++
		case a[p[0]]:
			n[1]++
		case b[p[1]]:
			n[2]++
		default:
			n[3]++
		}
	}
}

// around is how many characters of the passage are shown on each side of the answer.
const around = 160

func newExample(c *verdict.Comparison, g *squad.Paragraph, q *squad.Question, scores []armScores, seeds [][]uint64) example {
	e := example{ID: q.ID, Question: q.Text, Gold: q.Answers[0].Text}
	passage := []rune(g.Context)
	start := q.Answers[0].Start
	end := start + len([]rune(e.Gold))
	if start >= 0 && end <= len(passage) {
		from, to := max(0, start-around), min(len(passage), end+around)
		for from > 0 && from < start && passage[from-1] != ' ' { // whole words
			from++
		}
		for to < len(passage) && to > end && passage[to] != ' ' {
			to--
		}
		e.Before, e.After = string(passage[from:start]), string(passage[end:to])
		if from > 0 {
			e.Before = "… " + e.Before
		}
		if to < len(passage) {
			e.After += " …"
		}
	}
	for _, other := range q.Answers[1:] {
		if other.Text != e.Gold && !slices.Contains(e.Others, other.Text) {
			e.Others = append(e.Others, other.Text)
		}
	}
	for i, a := range c.Arms {
		s := scores[i]
		class := "doubt"
		switch s.f1 {
		case 1:
			class = "good"
		case 0:
			class = "bad"
		}
		e.Arms = append(e.Arms, armAnswer{Arm: a.Arm.String(), F1: strconv.FormatFloat(100*s.f1, 'f', 0, 64), Class: class,
			Texts: s.shown(seeds[i])})
	}
	return e
}
