package backendtest

import (
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// shapes returns the shapes of a program's outputs for a batch, see backend.Outputs.
func shapes(p *backend.Program, size int) map[string]tensor.Shape {
	c := &p.Model
	hidden := tensor.Shape{size, p.Length, c.HiddenSize}
	out := map[string]tensor.Shape{"embeddings": hidden, "sequence_output": hidden}
	for i := range c.NumHiddenLayers {
		out[fmt.Sprintf("layer.%d", i)] = hidden
	}
	switch p.Head.Task {
	case bert.Pretraining:
		out["pooler_output"] = tensor.Shape{size, c.HiddenSize}
		out["mlm_logits"] = tensor.Shape{size, p.MaxPredictions, c.VocabSize}
		out["nsp_logits"] = tensor.Shape{size, 2}
	case bert.QuestionAnswering:
		out["start_logits"], out["end_logits"] = tensor.Shape{size, p.Length}, tensor.Shape{size, p.Length}
	case bert.Classification:
		out["pooler_output"] = tensor.Shape{size, c.HiddenSize}
		out["logits"] = tensor.Shape{size, p.Head.Labels}
	case bert.TokenClassification:
		out["logits"] = tensor.Shape{size, p.Length, p.Head.Labels}
	case bert.MultipleChoice:
		out["pooler_output"] = tensor.Shape{size, c.HiddenSize}
		out["logits"] = tensor.Shape{size, 1}
	}
	return out
}

// evaluates asks for every output of every task, over batches smaller and larger than a micro-batch.
func (s *suite) evaluates() error {
	for _, head := range heads {
		f, err := s.fixtureOf(head)
		if err != nil {
			return err
		}
		if err := f.run(func(session backend.Session) error { return s.evaluatesHead(f, session) }); err != nil {
			return fmt.Errorf("%s with %d labels: %w", head.Task, head.Labels, err)
		}
	}
	return nil
}

func (s *suite) evaluatesHead(f *fixture, session backend.Session) error {
	const size, at = 7, 5 // batches of 5 and 2
	var names []string
	for name := range shapes(&f.program, size) {
		names = append(names, name)
	}
	slices.Sort(names)
	b := f.batch(1, size)
	var whole backend.Outputs
	if _, err := session.Evaluate(s.ctx, backend.Evaluation{Outputs: names}, cut(b, size),
		func(o backend.Outputs) error { whole = o; return nil }); err != nil {
		return err
	}
	for name, want := range shapes(&f.program, size) {
		if err := checkOutput(name, whole[name], want); err != nil {
			return err
		}
	}
	if err := checkMasked(&f.program, b, whole); err != nil {
		return err
	}
	// Sequences do not depend on each other, so the cut changes only the order of sums.
	n := 0
	_, err := session.Evaluate(s.ctx, backend.Evaluation{Outputs: names}, cut(b, at), func(o backend.Outputs) error {
		sequences := min(at, size-n)
		for name, want := range shapes(&f.program, sequences) {
			if err := checkOutput(name, o[name], want); err != nil {
				return err
			}
			width := want.Len() / sequences
			if err := near(name, o[name].Values, whole[name].Values[n*width:], s.precision.OutputTolerance); err != nil {
				return err
			}
		}
		n += sequences
		return nil
	})
	if err == nil && n != size {
		err = fmt.Errorf("outputs of %d sequences, want %d", n, size)
	}
	if err != nil {
		return err
	}
	if _, err := session.Evaluate(s.ctx, backend.Evaluation{Outputs: []string{"no such output"}}, cut(b, size), nil); err == nil {
		return fmt.Errorf("an unknown output was evaluated, want an error")
	}
	return nil
}

// checkMasked looks for logits of padding where the head has none.
func checkMasked(p *backend.Program, b *bert.Batch, o backend.Outputs) error {
	if !p.Head.MaskPadding {
		return nil
	}
	for _, name := range []string{"start_logits", "end_logits"} {
		for i, seen := range b.AttentionMask {
			if v := o[name].Values[i]; (v == bert.PaddingLogit) != (seen == 0) {
				return fmt.Errorf("mask_padding: %s of token %d is %g, where its attention mask is %d; want %d for padding, and for nothing else",
					name, i, v, seen, bert.PaddingLogit)
			}
		}
	}
	return nil
}

func checkOutput(name string, o backend.Output, want tensor.Shape) error {
	if !slices.Equal(o.Shape, want) || len(o.Values) != want.Len() {
		return fmt.Errorf("output %s has shape %v and %d values, want %v", name, o.Shape, len(o.Values), want)
	}
	for i, v := range o.Values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("output %s: element %d is %g", name, i, v)
		}
	}
	return nil
}

// near is an error if the norm of the difference exceeds a share of the norm.
func near(what string, got, want []float32, tolerance float64) error {
	var difference, norm float64
	for i, g := range got {
		d := float64(g) - float64(want[i])
		difference += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	if math.Sqrt(difference) > tolerance*math.Sqrt(norm) {
		return fmt.Errorf("%s differs by %.3g of its norm, want at most %g", what, math.Sqrt(difference/norm), tolerance)
	}
	return nil
}

// evaluatesLosses: without dropout, an evaluation and a step have the same losses.
func (s *suite) evaluatesLosses() error {
	return s.with(bert.Pretraining, func(f *fixture) error {
		f.program.Model.HiddenDropoutProb, f.program.Model.AttentionProbsDropoutProb = 0, 0
		return nil
	}, func(f *fixture, session backend.Session) error {
		r, err := f.step(session, 1)
		if err != nil {
			return err
		}
		b := f.batch(1, f.program.GlobalBatch())
		l, err := session.Evaluate(s.ctx, backend.Evaluation{Labels: true}, cut(b, 3), func(backend.Outputs) error { return nil })
		if err != nil {
			return err
		}
		if l.MaskedLM.Weight != r.Losses.MaskedLM.Weight || l.NextSentence.Weight != r.Losses.NextSentence.Weight {
			return fmt.Errorf("evaluation has losses of %g predictions and %g sequences, the step of %g and %g",
				l.MaskedLM.Weight, l.NextSentence.Weight, r.Losses.MaskedLM.Weight, r.Losses.NextSentence.Weight)
		}
		if d := math.Abs(l.Total() - r.Losses.Total()); d > s.precision.OutputTolerance*r.Losses.Total() {
			return fmt.Errorf("evaluation has the loss %g, the step without dropout %g", l.Total(), r.Losses.Total())
		}
		return nil
	})
}
