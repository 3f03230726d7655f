package evaluation

import (
	"fmt"
	"iter"

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

// Read reads the files of a task as one data set.
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

// Digest is the SHA-256 of the files in hexadecimal.
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

// First returns the first n questions or examples, or all of them if n is 0.
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

// questions yields the questions of all passages with their answers, as core/score takes them.
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

// Labelled reports whether the right answer to every question or example is known, so that predictions can be scored.
func (d *Data) Labelled() bool {
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

// settings say how a phase cuts passages into windows.
func settings(t *tasks.Task, p *recipe.Phase) squad.Settings {
	q := p.QuestionAnswering
	return squad.Settings{
		MaxLength: p.Length, DocStride: q.DocStride, MaxQueryLength: q.MaxQueryLength,
		Impossible: t.Impossible, Chinese: t.Chinese,
	}
}

// Labels are the labels of a task with labels, see tasks.Data.Labels.
func (d *Data) Labels() []string { return d.examples.Labels() }

// SetLabels gives an open task the labels that its training data, or its model, have.
func (d *Data) SetLabels(labels []string) {
	if d.Task.Open {
		d.Task = d.Task.With(labels)
		d.examples.Task = d.Task
	}
}

// Training is data to train on.
type Training struct {
	Source    dataset.Source
	Sequences int      // in an epoch
	Notes     []string // doubts about the data
}

// Training tokenizes the data for training in a phase.
func (d *Data) Training(t *wordpiece.Tokenizer, p *recipe.Phase, seed uint64) (*Training, error) {
	if d.passages != nil {
		return d.passagesTraining(t, p, seed)
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
		r.Notes = append(r.Notes, fmt.Sprintf("%d training examples were left out, as the published programs do; the first is at %s",
			n, d.examples.Skipped[0]))
	}
	return r, nil
}

func (d *Data) passagesTraining(t *wordpiece.Tokenizer, p *recipe.Phase, seed uint64) (*Training, error) {
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
		r.Notes = append(r.Notes, fmt.Sprintf("%d training questions were left out, as the published program does; the first is %s: %s",
			n, set.Skipped[0].ID, set.Skipped[0].Reason))
	}
	return r, nil
}
