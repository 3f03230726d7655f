// Package evaluation asks a model about the examples of a task and marks its answers as the task's own program does.
//
//	Read -> Data -> New -> Exam -> Sit (a backend's session) -> Answers -> Mark -> Marks
//
// Question answering and tasks with labels have different files, logits and measures; here they are one, for the training loop, which sits an
// exam now and then, and for the commands that predict, evaluate and score.
package evaluation

import (
	"context"
	"fmt"
	"iter"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
	"harness.invalid/core/score"
	"harness.invalid/core/wordpiece"
)

// Data are the examples of a task.
type Data struct {
	Task     *tasks.Task
	passages *squad.Data // question answering
	examples *tasks.Data // all else
}

// Read reads the files of a task as one.
func Read(t *tasks.Task, paths ...string) (*Data, error) {
	d := &Data{Task: t}
	var err error
	if t.Kind == bert.QuestionAnswering {
		d.passages, err = squad.Read(paths...)
	} else {
		d.examples, err = tasks.Read(t, paths...)
	}
	return d, err
}

// Digest is a SHA-256 of the files in hexadecimal.
func (d *Data) Digest() string {
	if d.passages != nil {
		return d.passages.Digest
	}
	return d.examples.Digest
}

// Len is the number of questions or examples.
func (d *Data) Len() int {
	if d.passages != nil {
		return d.passages.Questions()
	}
	return len(d.examples.Examples)
}

// First is the data with its first n questions or examples; 0: all.
func (d *Data) First(n int) *Data {
	if n == 0 || n >= d.Len() {
		return d
	}
	if d.passages != nil {
		return &Data{Task: d.Task, passages: firstQuestions(d.passages, n)}
	}
	part := *d.examples
	part.Examples = part.Examples[:n]
	return &Data{Task: d.Task, examples: &part}
}

func firstQuestions(d *squad.Data, n int) *squad.Data {
	part := &squad.Data{Version: d.Version, Name: d.Name, Digest: d.Digest}
	for _, a := range d.Articles {
		cut := squad.Article{Title: a.Title}
		for _, g := range a.Paragraphs {
			k := min(n, len(g.Questions))
			if n -= k; k > 0 {
				cut.Paragraphs = append(cut.Paragraphs, squad.Paragraph{Context: g.Context, Questions: g.Questions[:k]})
			}
		}
		part.Articles = append(part.Articles, cut)
	}
	return part
}

// questions are those of passages with their answers, for core/score.
func (d *Data) questions() iter.Seq[score.Question] {
	return func(yield func(score.Question) bool) {
		for _, a := range d.passages.Articles {
			for _, g := range a.Paragraphs {
				for _, q := range g.Questions {
					gold := score.Question{ID: q.ID}
					for _, answer := range q.Answers {
						gold.Answers = append(gold.Answers, answer.Text)
					}
					if !yield(gold) {
						return
					}
				}
			}
		}
	}
}

// Marked reports whether all answers are known, so that those of a model can be marked.
func (d *Data) Marked() bool {
	if d.examples != nil {
		return d.examples.Labelled()
	}
	for q := range d.questions() {
		if len(q.Answers) == 0 && !d.Task.Impossible {
			return false
		}
	}
	return true
}

// settings are those of a phase for passages.
func settings(t *tasks.Task, p *recipe.Phase) squad.Settings {
	q := p.QuestionAnswering
	return squad.Settings{MaxLength: p.Length, DocStride: q.DocStride, MaxQueryLength: q.MaxQueryLength, Impossible: t.Impossible, Chinese: t.Chinese}
}

// Training is data to train on.
type Training struct {
	Source    dataset.Source
	Sequences int      // of an epoch
	Notes     []string // doubts about the data
}

// Training makes sequences of the data as a phase wants them.
func (d *Data) Training(t *wordpiece.Tokenizer, p *recipe.Phase, seed uint64) (*Training, error) {
	if d.passages != nil {
		set, err := squad.NewSet(d.passages, t, settings(d.Task, p), true)
		if err != nil {
			return nil, err
		}
		source, err := squad.NewSource(set, p.GlobalBatch, seed)
		if err != nil {
			return nil, err
		}
		r := &Training{Source: source, Sequences: set.Len()}
		if n := len(set.Skipped); n > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%d training questions were left out, as the published program does; the first is %s: %s", n, set.Skipped[0].ID, set.Skipped[0].Reason))
		}
		return r, nil
	}
	set, err := tasks.NewSet(d.examples, t, p.Length, true)
	if err != nil {
		return nil, err
	}
	source, err := set.Source(p.GlobalBatch, seed)
	if err != nil {
		return nil, err
	}
	r := &Training{Source: source, Sequences: set.Len()}
	if n := len(d.examples.Skipped); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d training examples were left out, as the published programs do; the first is at %s", n, d.examples.Skipped[0]))
	}
	return r, nil
}

// Exam is data in batches.
type Exam struct {
	Data *Data

	batches  []*bert.Batch
	windows  *squad.Set
	decoding squad.Decoding
	set      *tasks.Set
}

// New makes sequences of data as a phase wants them, in batches of its evaluation.
func New(d *Data, t *wordpiece.Tokenizer, p *recipe.Phase) (*Exam, error) {
	e := &Exam{Data: d}
	var batches iter.Seq2[*bert.Batch, error]
	var err error
	if d.passages != nil {
		q := p.QuestionAnswering
		e.decoding = squad.Decoding{NBest: q.NBest, MaxAnswerLength: q.MaxAnswerLength, NullThreshold: q.NullScoreDiffThreshold}
		if e.windows, err = squad.NewSet(d.passages, t, settings(d.Task, p), false); err != nil {
			return nil, err
		}
		batches = e.windows.Batches(p.Evaluation.Batch)
	} else {
		if e.set, err = tasks.NewSet(d.examples, t, p.Length, d.Marked()); err != nil {
			return nil, err
		}
		batches = e.set.Batches(p.Evaluation.Batch)
	}
	for b, err := range batches {
		if err != nil {
			return nil, err
		}
		e.batches = append(e.batches, b)
	}
	return e, nil
}

// Sequences is the number of sequences of all batches.
func (e *Exam) Sequences() int {
	n := 0
	for _, b := range e.batches {
		n += b.Size
	}
	return n
}

// Answers are a model's.
type Answers struct {
	Task *tasks.Task
	// Loss is the mean over the examples, where they have labels.
	Loss   float64
	spans  squad.Predictions
	labels *tasks.Predictions
	// Of a file: answers by question, and how likely there is none.
	texts map[string]string
	odds  []score.Odds
}

// Sit has a model answer. told is told how many sequences are done; it may be nil.
func (e *Exam) Sit(ctx context.Context, s backend.Session, told func(done int)) (*Answers, error) {
	a := &Answers{Task: e.Data.Task}
	var decoder *squad.Decoder
	var logits []float32
	want := backend.Evaluation{Outputs: []string{"logits"}, Labels: e.set != nil && e.Data.Marked()}
	if e.windows != nil {
		var err error
		if decoder, err = squad.NewDecoder(e.windows, e.decoding); err != nil {
			return nil, err
		}
		want = backend.Evaluation{Outputs: []string{"start_logits", "end_logits"}}
	}
	next, done := 0, 0
	losses, err := s.Evaluate(ctx, want, e.each(), func(o backend.Outputs) error {
		if next == len(e.batches) {
			return fmt.Errorf("outputs for more than %d batches", next)
		}
		b := e.batches[next]
		next++
		if done += b.Size; told != nil {
			told(done)
		}
		if decoder != nil {
			return decoder.Add(b, o["start_logits"].Values, o["end_logits"].Values)
		}
		logits = append(logits, o["logits"].Values...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.Loss = losses.Total()
	if decoder != nil {
		a.spans, err = decoder.Predictions()
	} else {
		a.labels, err = e.set.Predict(logits)
	}
	return a, err
}

func (e *Exam) each() iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for _, b := range e.batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// Files are the names of the files that Save writes for a task, after a prefix: the one that is handed in first.
func Files(t *tasks.Task) []string {
	if t.Kind != bert.QuestionAnswering {
		return []string{"predictions" + t.Extension()}
	}
	names := []string{"predictions.json", "nbest_predictions.json"}
	if t.Impossible {
		names = append(names, "null_odds.json")
	}
	return names
}

// Save writes the answers in the format of the task's own program, and what goes with them; path says where a file of Files goes.
func (a *Answers) Save(path func(name string) string) error {
	names := Files(a.Task)
	if a.labels != nil {
		return a.labels.Save(path(names[0]))
	}
	for i, save := range []func(string) error{a.spans.Save, a.spans.SaveNBest, a.spans.SaveNullOdds} {
		if i < len(names) {
			if err := save(path(names[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// answers are the texts of spans by question.
func (a *Answers) answers() map[string]string {
	if a.texts != nil {
		return a.texts
	}
	return a.spans.Answers()
}

// noAnswer are the odds that there is none, in the order of the questions.
func (a *Answers) noAnswer() []score.Odds {
	if a.spans == nil {
		return a.odds
	}
	odds := make([]score.Odds, len(a.spans))
	for i, p := range a.spans {
		odds[i] = score.Odds{ID: p.ID, Value: p.NullOdds}
	}
	return odds
}

// Marks are what answers are worth.
type Marks struct {
	// Official are the numbers that the task's own program prints, under its names and in its order.
	Official Official
	// Metrics are those of recipes, records and tables: in %.
	Metrics map[string]float64
	// Missing is how many questions have no answer in a file of predictions.
	Missing int
	// Questions are what single questions count, in % by metric and id, where the metric is their mean.
	Questions map[string]map[string]float64
}

// Mark measures answers.
func (d *Data) Mark(a *Answers) (*Marks, error) {
	return d.mark(a, 1, false)
}

// mark is Mark for SQuAD v2.0 with the threshold of its program for odds of a file (na_prob_thresh).
func (d *Data) mark(a *Answers, threshold float64, byFile bool) (*Marks, error) {
	switch {
	case d.examples != nil:
		return d.markLabels(a)
	case d.Task.Impossible:
		return d.markImpossible(a, threshold, byFile)
	}
	measure := score.SQuAD
	if d.Task.Chinese {
		measure = score.CMRC
	}
	s, err := measure(d.questions(), a.answers())
	if err != nil {
		return nil, err
	}
	m := &Marks{Metrics: map[string]float64{tasks.ExactMatch: s.ExactMatch, tasks.F1: s.F1}, Missing: s.Missing, Questions: single(s.Questions)}
	m.Official.add("exact_match", s.ExactMatch)
	m.Official.add("f1", s.F1)
	if d.Task.Chinese {
		m.Official = nil
		m.Official.add("AVERAGE", (s.ExactMatch+s.F1)/2)
		m.Official.add("F1", s.F1)
		m.Official.add("EM", s.ExactMatch)
		m.Official.add("TOTAL", float64(s.Total))
		m.Official.add("SKIP", float64(s.Missing))
	}
	return m, nil
}

func (d *Data) markLabels(a *Answers) (*Marks, error) {
	scores, err := d.examples.Score(a.labels)
	if err != nil {
		return nil, err
	}
	m := &Marks{Metrics: map[string]float64{}}
	for _, name := range d.Task.Metrics {
		m.Official.add(name, scores[name])
		m.Metrics[name] = 100 * scores[name]
	}
	return m, nil
}

// markImpossible is for SQuAD v2.0. The model has decided with its own threshold which questions have no answer; odds from a file decide once more, as in
// the official program. Either way they serve to look for the best threshold.
func (d *Data) markImpossible(a *Answers, threshold float64, byFile bool) (*Marks, error) {
	odds := a.noAnswer()
	s, err := score.SQuAD2(d.questions(), a.answers(), odds, threshold)
	if err != nil {
		return nil, err
	}
	if odds != nil && !byFile {
		best := s.Best
		if s, err = score.SQuAD2(d.questions(), a.answers(), nil, threshold); err != nil {
			return nil, err
		}
		s.Best = best
	}
	m := &Marks{Metrics: map[string]float64{tasks.ExactMatch: s.ExactMatch, tasks.F1: s.F1}, Missing: s.Missing, Questions: single(s.Questions)}
	o := &m.Official
	part := func(prefix string, s *score.SQuADScore) {
		if s != nil {
			o.add(prefix+"exact", s.ExactMatch)
			o.add(prefix+"f1", s.F1)
			o.add(prefix+"total", float64(s.Total))
		}
	}
	part("", &s.SQuADScore)
	part("HasAns_", s.HasAns)
	part("NoAns_", s.NoAns)
	if b := s.Best; b != nil {
		o.add("best_exact", b.ExactMatch)
		o.add("best_exact_thresh", b.ExactMatchThreshold)
		o.add("best_f1", b.F1)
		o.add("best_f1_thresh", b.F1Threshold)
		m.Metrics[tasks.BestExact], m.Metrics[tasks.BestF1] = b.ExactMatch, b.F1
	}
	return m, nil
}

func single(questions []score.QuestionScore) map[string]map[string]float64 {
	s := map[string]map[string]float64{tasks.ExactMatch: {}, tasks.F1: {}}
	for _, q := range questions {
		s[tasks.F1][q.ID], s[tasks.ExactMatch][q.ID] = 100*q.F1, 0
		if q.ExactMatch {
			s[tasks.ExactMatch][q.ID] = 100
		}
	}
	return s
}

// Score is the mean of the metrics that count in a benchmark, in %.
func (m *Marks) Score(t *tasks.Task) float64 {
	sum := 0.0
	for _, name := range t.Metrics[:t.Scored] {
		sum += m.Metrics[name]
	}
	return sum / float64(t.Scored)
}
