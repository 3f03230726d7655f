package evaluation

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/dataset/tasks"
)

// Floors are what a model that ignores its input can score in an evaluation, by metric. For the likelihood of answers it
// takes every token of a window for as likely as the others.
func (e *Evaluator) Floors() (map[string]float64, error) {
	floors, err := e.Data.Floors()
	if err != nil || e.windows == nil {
		return floors, err
	}
	decoder, err := squad.NewDecoder(e.windows, e.decoding)
	if err != nil {
		return nil, err
	}
	for _, b := range e.batches {
		same := make([]float32, b.Size*b.Length)
		if err := decoder.Add(b, same, same); err != nil {
			return nil, err
		}
	}
	if v, ok := decoder.Likelihood(); ok {
		floors[tasks.AnswerNLL] = v
	}
	return floors, nil
}

// Floors are those of the metrics of Scores, and of the loss of tasks with labels. A model that is no better has
// learned nothing that a verdict could rest on.
//
// With labels they are the best of all predictions that are the same for every example. With questions the best of
// what can be answered without reading the question: one text everywhere, whatever stands at one place of each
// passage, or that text of the passage which is most often the answer to questions about other passages.
func (d *Data) Floors() (map[string]float64, error) {
	if d.passages != nil {
		return d.answerFloors()
	}
	scores, loss, err := d.examples.Floors()
	floors := map[string]float64{"loss": loss}
	for name, v := range scores {
		floors[name] = 100 * v
	}
	return floors, err
}

// guesses is how many texts, words and places are tried, the most frequent answers first. Each costs as much as scoring
// the data.
const guesses = 2

func (d *Data) answerFloors() (map[string]float64, error) {
	var texts, words tally[string]
	var places tally[place]
	for i := range d.passages.Articles {
		for _, g := range d.passages.Articles[i].Paragraphs {
			for _, q := range g.Questions {
				if len(q.Answers) == 0 {
					texts.add("") // no answer
					continue
				}
				texts.add(q.Answers[0].Text)
				for _, w := range d.words(q.Answers[0].Text) {
					words.add(w)
				}
				places.add(d.placeOf(q.Answers[0], g.Context))
			}
		}
	}
	texts.sort()
	words.sort()
	places.sort()
	floors := map[string]float64{}
	try := func(answer func(g *squad.Paragraph) string) error {
		p := &Predictions{Task: d.Task, texts: map[string]string{}}
		for i := range d.passages.Articles {
			for _, g := range d.passages.Articles[i].Paragraphs {
				text := answer(&g)
				for _, q := range g.Questions {
					p.texts[q.ID] = text
				}
			}
		}
		s, err := d.Score(p)
		if err != nil {
			return err
		}
		for name, v := range s.Metrics {
			floors[name] = max(floors[name], v)
		}
		return nil
	}
	answers := []func(g *squad.Paragraph) string{
		func(g *squad.Paragraph) string { return likeliest(g, &texts) },
	}
	for _, text := range append(texts.most(guesses), words.most(guesses)...) {
		answers = append(answers, func(*squad.Paragraph) string { return text })
	}
	for _, at := range places.most(guesses) {
		answers = append(answers, func(g *squad.Paragraph) string { return d.at(g.Context, at) })
	}
	for _, a := range answers {
		if err := try(a); err != nil {
			return nil, err
		}
	}
	if d.Task.Impossible {
		// No threshold makes one answer for all better than the better of it and no answer.
		floors[tasks.BestF1], floors[tasks.BestExact] = floors[tasks.F1], floors[tasks.ExactMatch]
	}
	return floors, nil
}

// likeliest is the text of a passage that answers most questions about other passages; "" if there is none.
func likeliest(g *squad.Paragraph, texts *tally[string]) string {
	own := map[string]int{}
	for _, q := range g.Questions {
		if len(q.Answers) > 0 {
			own[q.Answers[0].Text]++
		}
	}
	best, most := "", 0
	for _, text := range texts.order {
		n := texts.count[text]
		if n <= most {
			break // the rest is rarer still
		}
		if n -= own[text]; n > most && text != "" && strings.Contains(g.Context, text) {
			best, most = text, n
		}
	}
	return best
}

// place is a run of words of a passage, or of characters where the task is Chinese.
type place struct{ first, words int }

func (d *Data) words(text string) []string {
	if d.Task.Chinese {
		return strings.Split(text, "")
	}
	return strings.Fields(text)
}

// placeOf is where an answer stands. It begins with the word that it is part of.
func (d *Data) placeOf(a squad.Answer, context string) place {
	before := []rune(context)
	before = before[:min(a.Start, len(before))]
	p := place{len(d.words(string(before))), len(d.words(a.Text))}
	if n := len(before); !d.Task.Chinese && n > 0 && !unicode.IsSpace(before[n-1]) {
		p.first--
	}
	return p
}

// at is what stands at a place of a passage, as far as that goes.
func (d *Data) at(context string, p place) string {
	words := d.words(context)
	first := min(p.first, len(words))
	words = words[first:min(first+p.words, len(words))]
	if d.Task.Chinese {
		return strings.Join(words, "")
	}
	return strings.Join(words, " ")
}

// tally counts values.
type tally[T comparable] struct {
	count map[T]int
	order []T // in which they were first seen
}

func (t *tally[T]) add(v T) {
	if t.count == nil {
		t.count = map[T]int{}
	}
	if t.count[v]++; t.count[v] == 1 {
		t.order = append(t.order, v)
	}
}

// sort puts the most frequent values first.
func (t *tally[T]) sort() {
	slices.SortStableFunc(t.order, func(a, b T) int { return cmp.Compare(t.count[b], t.count[a]) })
}

// most are the n most frequent values, once they are sorted.
func (t *tally[T]) most(n int) []T { return slices.Clone(t.order[:min(n, len(t.order))]) }
