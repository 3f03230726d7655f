package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/train"
)

// StepOptions say what a training step is of.
type StepOptions struct {
	Size      string // tiny, mini, small, medium, base or large
	Task      bert.Task
	Backend   string
	Precision string // empty: the backend's default
	Options   map[string]string
	Optimizer string
	Length    int
	Batch     int // sequences
	Dropout   float64
}

// ChoosePrecision sets the backend's default where no precision is given.
func (o *StepOptions) ChoosePrecision(ctx context.Context, b backend.Backend) error {
	info, err := b.Describe(ctx)
	if err != nil {
		return err
	}
	p, err := info.Precision(o.Precision)
	o.Precision = p.Name
	return err
}

// batches is how many batches that a benchmark takes in turn, made before it begins: data preparation is not part of the figure.
const batches = 4

// Predictions is the number of masked positions of a sequence: 20 at length 128 as in google-research/bert, else 15%.
func (o *StepOptions) Predictions() int {
	if o.Length == 128 {
		return 20
	}
	return max(1, int(0.15*float64(o.Length)+0.5))
}

// Config is the model.
func (o *StepOptions) Config() (bert.Config, error) {
	c, err := bert.Defaults().Size(o.Size)
	c.HiddenAct = bert.GELU
	c.HiddenDropoutProb, c.AttentionProbsDropoutProb = o.Dropout, o.Dropout
	return c, err
}

// FLOP is the number of floating point operations of the matrix products of a step that the loss depends on, a multiplication and an addition counted as
// two. The backward pass is twice the forward pass. What an implementation computes again to save memory does not count, nor do the tokens that no head
// reads, in the last layer: of those the loss depends on keys and values alone.
func (o *StepOptions) FLOP(c bert.Config) float64 {
	B, S, H, I, V := float64(o.Batch), float64(o.Length), float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.VocabSize)
	T := B * S
	read, heads := T, 2*T*H*2
	if o.Task == bert.Pretraining {
		P := B * float64(o.Predictions())
		read, heads = min(T, B+P), 2*B*H*H+2*B*H*2+2*P*H*H+2*P*H*V
	}
	layers := float64(c.NumHiddenLayers)
	keys, rest := 2*2*H*H, 2*2*H*H+2*2*S*H+2*2*H*I // of a token in a layer; keys and values, and all that is computed for a query
	return 3 * (layers*T*keys + ((layers-1)*T+read)*rest + heads)
}

// Step is a whole training step through plugins: batch to the backend, forward, backward, gradients to the optimizer, parameters back.
func Step(ctx context.Context, p train.Plugins, o StepOptions) Benchmark {
	name := fmt.Sprintf("Step/model=%s/task=%s/backend=%s:%s/seq=%d/batch=%d/dropout=%g", o.Size, o.Task, o.Backend, o.Precision, o.Length, o.Batch, o.Dropout)
	return Benchmark{name, func(b *testing.B) (Figure, error) { return step(ctx, b, p, o) }}
}

func step(ctx context.Context, b *testing.B, p train.Plugins, o StepOptions) (f Figure, err error) {
	c, err := o.Config()
	if err != nil {
		return Figure{}, err
	}
	t := trainer{program: backend.Program{Model: c, Head: bert.Head{Task: o.Task}, Precision: o.Precision, Options: o.Options, Seed: 1,
		Length: o.Length, MicroBatch: o.Batch, Accumulation: 1, Replicas: 1}}
	if o.Task == bert.Pretraining {
		t.program.MaxPredictions = o.Predictions()
	}
	if err := t.open(ctx, p, o.Optimizer); err != nil {
		return Figure{}, err
	}
	defer func() { err = errors.Join(err, t.session.Close(), t.rule.Close()) }()
	for i := range batches {
		t.batches[i] = randomBatch(&t.program, uint64(i))
	}
	for range 2 { // the first steps allocate
		if err := t.step(ctx); err != nil {
			return Figure{}, err
		}
	}
	t.parts = map[string][]float64{}
	inputs := inputs(o.Precision)
	// The clock falls, and rises again, within tens of milliseconds of vector work: a limit that is taken for one alone may be of another clock than the step.
	const sustained = 25
	flop := sustained * peak(inputs)
	limit := func() {
		for range sustained {
			peak(inputs)
		}
	}
	s := samples{elsewhere: true}
	b.ResetTimer()
	for b.Loop() {
		s.take(func() { err = t.step(ctx) }, limit)
		if err != nil {
			return Figure{}, err
		}
	}
	f = s.figure()
	total := o.FLOP(c)
	f.GFLOPS, f.PeakGFLOPS = f.against(&s, total, flop)
	f.GFLOP = total / 1e9
	f.SequencesPerSecond = float64(o.Batch) / (f.Time.Median / 1e3)
	f.StepMS = &f.Time
	f.Parts = map[string]float64{}
	for part, ms := range t.parts {
		f.Parts[part] = Median(ms)
	}
	return f, nil
}

// inputs is the format of the factors of products, as far as the name of a precision tells.
func inputs(precision string) numerics.Format {
	name, _, _ := strings.Cut(precision, "-") // fp16-o2
	name, _, _ = strings.Cut(name, ".")       // fp16.16
	f, err := numerics.ParseFormat(name)
	if err != nil {
		return numerics.FP32
	}
	return f
}

// trainer does steps as harness/train does, without data, evaluation and record.
type trainer struct {
	program backend.Program
	session backend.Session
	rule    optimizer.Session
	batches [batches]*bert.Batch
	done    int
	parts   map[string][]float64
}

func (t *trainer) open(ctx context.Context, p train.Plugins, rule string) error {
	l, err := bert.Parameters(t.program.Model, t.program.Head)
	if err != nil {
		return err
	}
	o, err := p.Optimizer(ctx, rule)
	if err != nil {
		return err
	}
	slots, err := o.Slots(ctx, nil)
	if err != nil {
		return err
	}
	m, err := p.Allocate(l, len(slots))
	if err != nil {
		return err
	}
	bert.Initialize(t.program.Model, l, m.Params, 1)
	if t.rule, err = o.Open(ctx, nil, m); err != nil {
		return err
	}
	t.session, err = p.Backend().Open(ctx, t.program, backend.Memory{Layout: l, Params: m.Params, Grads: m.Grads})
	if err == nil {
		if err = t.session.Commit(ctx, 0); err == nil {
			return nil
		}
		err = errors.Join(err, t.session.Close())
	}
	return errors.Join(err, t.rule.Close())
}

// step is one training step. Its part "other" is what of the backend's call the backend does not compute: the wire, and the host's look at the gradients.
func (t *trainer) step(ctx context.Context) error {
	batch := t.batches[t.done%batches]
	t.done++
	parts := map[string]time.Duration{}
	start := time.Now()
	r, err := t.session.Step(ctx, backend.Step{Step: t.done, Sequences: batch.Size, MaskedWeight: batch.MaskedWeight()}, one(batch))
	if err != nil {
		return err
	}
	computed := time.Duration(0)
	for _, p := range r.Phases {
		d := time.Duration(p.Seconds * 1e9)
		parts["backend."+p.Name] = d
		if p.Name != host.TransportPhase {
			computed += d
		}
	}
	now := time.Now()
	parts["backend"] = now.Sub(start)
	parts["other"] = now.Sub(start) - computed
	if r.Finite {
		if _, err := t.rule.Step(ctx, optimizer.Step{Step: t.done, LR: 1e-4, GradientNorm: r.GradientNorm}); err != nil {
			return err
		}
		after := time.Now()
		parts["optimizer"] = after.Sub(now)
		if err := t.session.Commit(ctx, t.done); err != nil {
			return err
		}
		parts["commit"] = time.Since(after)
	}
	if t.parts != nil {
		for name, d := range parts {
			t.parts[name] = append(t.parts[name], d.Seconds()*1e3)
		}
	}
	return nil
}

func one(b *bert.Batch) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) { yield(b, nil) }
}

// randomBatch is a batch of random tokens without padding.
func randomBatch(p *backend.Program, seed uint64) *bert.Batch {
	r := rand.New(rand.NewPCG(1, seed))
	size, length := p.MicroBatch, p.Length
	ids := func(n, limit int) []int32 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(r.IntN(limit))
		}
		return x
	}
	b := &bert.Batch{Size: size, Length: length, InputIDs: ids(size*length, p.Model.VocabSize), TokenTypeIDs: make([]int32, size*length), AttentionMask: make([]int32, size*length)}
	for i := range b.AttentionMask {
		b.AttentionMask[i] = 1
		if i%length >= length/2 {
			b.TokenTypeIDs[i] = 1
		}
	}
	if p.Head.Task != bert.Pretraining {
		b.StartPositions, b.EndPositions = ids(size, length), ids(size, length)
		return b
	}
	b.Predictions = p.MaxPredictions
	b.MaskedLMPositions, b.MaskedLMIDs = make([]int32, 0, size*b.Predictions), ids(size*b.Predictions, p.Model.VocabSize)
	b.MaskedLMWeights, b.NextSentenceLabels = make([]float32, size*b.Predictions), ids(size, 2)
	for range size {
		for _, at := range r.Perm(length)[:b.Predictions] {
			b.MaskedLMPositions = append(b.MaskedLMPositions, int32(at))
		}
	}
	for i := range b.MaskedLMWeights {
		b.MaskedLMWeights[i] = 1
	}
	return b
}
