// Package evaluation runs a model over the examples of a task and scores its predictions as the task's official
// script does.
//
//	Read -> Data -> New -> Evaluator -> Run (over a backend's session) -> Predictions -> Data.Score -> Scores
//
// Question answering and tasks with labels have different files, logits and metrics. Here they look the same to the
// training loop, which evaluates from time to time, and to the commands that predict, evaluate and score.
package evaluation

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
	"harness.invalid/core/wordpiece"
)

// Evaluator holds the data of an evaluation in batches, ready for a model.
type Evaluator struct {
	Data *Data

	batches  []*bert.Batch
	windows  *squad.Set // question answering
	decoding squad.Decoding
	masked   bool       // question answering: recipe.QuestionAnswering.MaskPadding
	set      *tasks.Set // all else
}

// New tokenizes the data as a phase does, in batches of the phase's evaluation size.
func New(d *Data, t *wordpiece.Tokenizer, p *recipe.Phase) (*Evaluator, error) {
	e := &Evaluator{Data: d}
	var batches iter.Seq2[*bert.Batch, error]
	var err error
	if d.passages != nil {
		q := p.QuestionAnswering
		e.decoding = squad.Decoding{NBest: q.NBest, MaxAnswerLength: q.MaxAnswerLength, NullThreshold: q.NullScoreDiffThreshold}
		e.masked = q.MaskPadding
		if e.windows, err = squad.NewSet(d.passages, t, settings(d.Task, p), false); err != nil {
			return nil, err
		}
		batches = e.windows.Batches(p.Evaluation.Batch)
	} else {
		if e.set, err = tasks.NewSet(d.examples, t, p.Length, d.Labelled()); err != nil {
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

// Sequences is the number of sequences in all batches.
func (e *Evaluator) Sequences() int {
	n := 0
	for _, b := range e.batches {
		n += b.Size
	}
	return n
}

// Inputs are the sequences of all batches, one by one.
func (e *Evaluator) Inputs() []*bert.Batch {
	var all []*bert.Batch
	for _, b := range e.batches {
		for i := range b.Size {
			all = append(all, b.Slice(i, i+1))
		}
	}
	return all
}

// Run evaluates the model that a session holds. progress, if not nil, is called with the number of sequences done
// so far.
func (e *Evaluator) Run(ctx context.Context, s backend.Session, progress func(done int)) (*Predictions, error) {
	p := &Predictions{Task: e.Data.Task}
	var decoder *squad.Decoder
	var logits []float32
	want := backend.Evaluation{Outputs: []string{"logits"}, Labels: e.set != nil && e.Data.Labelled()}
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
			return fmt.Errorf("the backend returned outputs for more than %d batches", next)
		}
		b := e.batches[next]
		next++
		if done += b.Size; progress != nil {
			progress(done)
		}
		if decoder != nil {
			if e.masked && !masksPadding(b, o["start_logits"].Values) {
				return errors.New("the backend does not know mask_padding, which the recipe sets: its logits of padding count")
			}
			return decoder.Add(b, o["start_logits"].Values, o["end_logits"].Values)
		}
		logits = append(logits, o["logits"].Values...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.Loss = losses.Total()
	if decoder != nil {
		p.spans, err = decoder.Predictions()
		if v, ok := decoder.Likelihood(); ok {
			p.AnswerNLL = &v
		}
	} else {
		p.labels, err = e.set.Predict(logits)
	}
	return p, err
}

// masksPadding reports whether the logits of padding are those of a head with bert.Head.MaskPadding.
func masksPadding(b *bert.Batch, logits []float32) bool {
	for i, v := range logits {
		if b.AttentionMask[i] == 0 && v != bert.PaddingLogit {
			return false
		}
	}
	return true
}

func (e *Evaluator) each() iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for _, b := range e.batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}
