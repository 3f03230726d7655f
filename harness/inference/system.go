package inference

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// Model is the System of a model that a backend's session holds.
type Model struct {
	Session backend.Session
	// Inputs are the samples: batches of one sequence, all of one length.
	Inputs []*bert.Batch
	// Outputs are what is asked for, see backend.Outputs.
	Outputs []string
}

var _ System = (*Model)(nil)

// OutputsOf are the outputs that answer a task.
func OutputsOf(t bert.Task) []string {
	switch t {
	case bert.QuestionAnswering:
		return []string{"start_logits", "end_logits"}
	case bert.Pretraining:
		return []string{"pooler_output"}
	}
	return []string{"logits"}
}

// Answer is System's.
func (m *Model) Answer(ctx context.Context, samples []int) error {
	batch, err := m.join(samples)
	if err != nil {
		return err
	}
	answered := 0
	_, err = m.Session.Evaluate(ctx, backend.Evaluation{Outputs: m.Outputs}, one(batch), func(o backend.Outputs) error {
		answered++
		for _, name := range m.Outputs {
			if len(o[name].Values) == 0 {
				return fmt.Errorf("the backend returned no %s", name)
			}
		}
		return nil
	})
	if err == nil && answered != 1 {
		err = fmt.Errorf("the backend returned outputs of %d batches, want 1", answered)
	}
	return err
}

func one(b *bert.Batch) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) { yield(b, nil) }
}

// join makes one batch of some samples, without labels.
func (m *Model) join(samples []int) (*bert.Batch, error) {
	if len(samples) == 0 {
		return nil, errors.New("there are no samples to answer")
	}
	all := &bert.Batch{Size: len(samples), Length: m.Inputs[0].Length}
	for _, i := range samples {
		b := m.Inputs[i]
		if b.Size != 1 || b.Length != all.Length {
			return nil, fmt.Errorf("sample %d has %d sequences of %d tokens, want 1 of %d", i, b.Size, b.Length, all.Length)
		}
		all.InputIDs = append(all.InputIDs, b.InputIDs...)
		all.TokenTypeIDs = append(all.TokenTypeIDs, b.TokenTypeIDs...)
		all.AttentionMask = append(all.AttentionMask, b.AttentionMask...)
	}
	return all, nil
}
