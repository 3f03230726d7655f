package backendtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/random"
)

// fixture is a small program with memory and data.
type fixture struct {
	suite       *suite
	program     backend.Program
	memory      backend.Memory
	uncommitted bool // open without a first Commit
}

// model has extents that are not powers of two, so that blocks are incomplete.
var model = bert.Config{
	VocabSize: 61, HiddenSize: 24, NumHiddenLayers: 2, NumAttentionHeads: 2, IntermediateSize: 40, HiddenAct: bert.GELUNew,
	HiddenDropoutProb: 0.1, AttentionProbsDropoutProb: 0.1, MaxPositionEmbeddings: 20, TypeVocabSize: 2,
	InitializerRange: 0.05, LayerNormEps: 1e-12, AttentionMask: -1000,
}

// labels is the number of labels of the suite's classification.
const labels = 3

// fixture returns a program of 2 replicas x 2 micro-batches x 2 sequences with initial parameters.
func (s *suite) fixture(task bert.Task) (*fixture, error) {
	head := bert.Head{Task: task}
	if task == bert.Classification || task == bert.TokenClassification {
		head.Labels = labels
	}
	return s.fixtureOf(head)
}

func (s *suite) fixtureOf(head bert.Head) (*fixture, error) {
	f := &fixture{suite: s, program: backend.Program{
		Model: model, Head: head, Precision: s.precision.Name, Seed: 7, Length: 16, MaxPredictions: 3, MicroBatch: 2,
		Accumulation: 2, Replicas: 2,
	}}
	return f, f.allocate()
}

// allocate gives the fixture memory with initial parameters.
func (f *fixture) allocate() error {
	l, err := bert.Parameters(f.program.Model, f.program.Head)
	if err != nil {
		return err
	}
	f.memory = backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	from := start{f.program.Model, f.program.Head, f.program.Seed}
	initial, ok := f.suite.initial[from]
	if !ok {
		initial = make([]float32, l.Len())
		bert.Initialize(from.model, l, initial, from.seed)
		f.suite.initial[from] = initial
	}
	copy(f.memory.Params, initial)
	return nil
}

// with opens a fixture's program, commits its parameters, and runs body.
func (s *suite) with(task bert.Task, prepare func(f *fixture) error, body func(f *fixture, session backend.Session) error) error {
	f, err := s.fixture(task)
	if err != nil {
		return err
	}
	if prepare != nil {
		if err := prepare(f); err != nil {
			return err
		}
	}
	return f.run(func(session backend.Session) error { return body(f, session) })
}

// run opens the program and commits the parameters around body.
func (f *fixture) run(body func(session backend.Session) error) (err error) {
	session, err := f.suite.b.Open(f.suite.ctx, f.program, f.memory)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if !f.uncommitted {
		if err := session.Commit(f.suite.ctx, 0); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return body(session)
}

// batch returns a global batch that depends only on the step. Sequences end in padding of different lengths.
func (f *fixture) batch(step, size int) *bert.Batch {
	stream := random.New(3, random.Data)
	stream.Step = uint32(step)
	r := rand.New(&random.Source{Stream: stream})
	p := &f.program
	b := &bert.Batch{Size: size, Length: p.Length}
	ids := func(n, limit int) []int32 {
		values := make([]int32, n)
		for i := range values {
			values[i] = int32(r.IntN(limit))
		}
		return values
	}
	tokens := size * p.Length
	b.InputIDs, b.TokenTypeIDs, b.AttentionMask = ids(tokens, p.Model.VocabSize), ids(tokens, p.Model.TypeVocabSize), make([]int32, tokens)
	for i := range b.AttentionMask {
		if i%p.Length < p.Length-i/p.Length%4 {
			b.AttentionMask[i] = 1
		}
	}
	switch p.Head.Task {
	case bert.Pretraining:
		n := size * p.MaxPredictions
		b.Predictions = p.MaxPredictions
		b.MaskedLMPositions, b.MaskedLMIDs, b.MaskedLMWeights = ids(n, p.Length-4), ids(n, p.Model.VocabSize), make([]float32, n)
		for i := range b.MaskedLMWeights {
			if i%p.MaxPredictions <= i/p.MaxPredictions%p.MaxPredictions {
				b.MaskedLMWeights[i] = 1
			}
		}
		b.NextSentenceLabels = ids(size, 2)
	case bert.QuestionAnswering:
		b.StartPositions, b.EndPositions = ids(size, p.Length-4), ids(size, p.Length-4)
	case bert.Classification:
		b.Labels = ids(size, p.Head.Labels)
		if p.Head.Labels == 1 {
			b.Targets = make([]float32, size)
			for i := range b.Targets {
				b.Targets[i] = float32(r.NormFloat64())
			}
		}
	case bert.TokenClassification:
		b.Labels = ids(tokens, p.Head.Labels)
		for i := range b.Labels { // a word has one to three pieces
			if i%(1+i/p.Length%3) != 0 || b.AttentionMask[i] == 0 {
				b.Labels[i] = bert.Unlabelled
			}
		}
	}
	return b
}

// cut yields a batch in micro-batches.
func cut(b *bert.Batch, size int) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for i := 0; i < b.Size; i += size {
			if !yield(b.Slice(i, min(b.Size, i+size)), nil) {
				return
			}
		}
	}
}

// announce describes the step over a global batch.
func announce(step int, b *bert.Batch) backend.Step {
	s := backend.Step{Step: step, Sequences: b.Size, MaskedWeight: b.MaskedWeight()}
	if len(b.Labels) > b.Size {
		s.LabelWeight = b.LabelWeight()
	}
	return s
}

// step runs a step over its batch.
func (f *fixture) step(session backend.Session, step int) (backend.StepResult, error) {
	return f.stepContext(f.suite.ctx, session, step)
}

func (f *fixture) stepContext(ctx context.Context, session backend.Session, step int) (backend.StepResult, error) {
	b := f.batch(step, f.program.GlobalBatch())
	r, err := session.Step(ctx, announce(step, b), cut(b, f.program.MicroBatch))
	if err != nil {
		return r, fmt.Errorf("step %d: %w", step, err)
	}
	return r, nil
}

// descend is a step of gradient descent, so that the suite needs no optimizer.
func (f *fixture) descend(session backend.Session, step int, rate float32) (backend.StepResult, error) {
	r, err := f.step(session, step)
	if err != nil {
		return r, err
	}
	if r.Finite {
		for i, g := range f.memory.Grads {
			f.memory.Params[i] -= float32(rate * g)
		}
	}
	return r, session.Commit(f.suite.ctx, step)
}
