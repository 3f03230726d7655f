package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
)

// StepOptions describe a training step.
type StepOptions struct {
	Size string // tiny, mini, small, medium, base or large
	Task bert.Task
	// MaskPadding chooses answers among the tokens that attention sees, see bert.Head.
	MaskPadding bool
	Backend     string
	Precision   string // empty: the backend's default
	Options     map[string]string
	Optimizer   string
	Length      int
	Batch       int     // sequences
	Fill        float64 // share of tokens that are no padding; 0: all
	Dropout     float64
}

// ChoosePrecision sets the backend's default if no precision is given. A policy in place of one goes into the options.
func (o *StepOptions) ChoosePrecision(ctx context.Context, b backend.Backend) error {
	info, err := b.Describe(ctx)
	if err != nil {
		return err
	}
	name, policy, err := processes.ReadPolicy(o.Precision)
	if err != nil {
		return err
	}
	if policy == "" {
		if policy, err = processes.NamedPolicy(info, o.Precision); err != nil {
			return err
		}
	}
	if o.Precision = name; policy != "" {
		if o.Options = maps.Clone(o.Options); o.Options == nil {
			o.Options = map[string]string{}
		}
		o.Options[backend.PolicyOption] = policy
		return nil
	}
	p, err := info.Precision(o.Precision)
	o.Precision = p.Name
	return err
}

// Predictions is the number of masked positions in a sequence: 20 at length 128 as in google-research/bert,
// otherwise 15%.
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

// FLOP is the number of floating point operations of a step's matrix products on which the loss depends; a
// multiply-add counts as two. The backward pass has twice as many as the forward pass. Recomputation to save memory
// does not count, nor does work for padding, or in the last layer for tokens that no head reads: only their keys
// and values affect the loss. With padding it is the mean over the batches. The head of questions reads padding,
// too, which only has no keys and values, unless MaskPadding is set.
func (o *StepOptions) FLOP(c bert.Config) float64 {
	B, S, H, I, V := float64(o.Batch), float64(o.Length), float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.VocabSize)
	P, heads := float64(o.Predictions()), 2*B*S*H*2
	if o.Task == bert.Pretraining {
		heads = 2*B*H*H + 2*B*H*2 + 2*B*P*H*H + 2*B*P*H*V
	}
	layers := float64(c.NumHiddenLayers)
	keys, rest := 2*2*H*H, 2*2*H*H+2*2*H*I // per token and layer: keys and values; everything else but attention
	attention := 2 * 2 * H                 // per query and key
	var sum float64
	for batch := range batches {
		for _, n := range o.lengths(batch) {
			n := float64(n)
			computed, read := n, min(S, 1+P) // queries in all layers, and in the last
			if o.Task != bert.Pretraining && !o.MaskPadding {
				computed, read = S, S
			} else if o.Task != bert.Pretraining {
				read = n
			}
			sum += layers*n*keys + ((layers-1)*computed+min(computed, read))*(rest+n*attention)
		}
	}
	return 3 * (sum/batches + heads)
}

// Step is a benchmark of a whole training step through plugins: batch to the backend, forward and backward pass,
// gradients to the optimizer, parameters back.
func Step(ctx context.Context, p train.Plugins, o StepOptions) Benchmark {
	name := fmt.Sprintf("Step/model=%s/task=%s/backend=%s:%s/seq=%d/batch=%d/dropout=%g",
		o.Size, o.Task, o.Backend, o.Precision, o.Length, o.Batch, o.Dropout)
	if o.fill() < 1 {
		name += fmt.Sprintf("/fill=%g", o.Fill)
	}
	if o.MaskPadding {
		name += "/mask_padding"
	}
	return Benchmark{name, func(b *testing.B) (Figure, error) { return step(ctx, b, p, o) }}
}

func step(ctx context.Context, b *testing.B, p train.Plugins, o StepOptions) (f Figure, err error) {
	c, err := o.Config()
	if err != nil {
		return Figure{}, err
	}
	t := trainer{program: backend.Program{
		Model: c, Head: bert.Head{Task: o.Task, MaskPadding: o.MaskPadding}, Precision: o.Precision, Options: o.Options, Seed: 1,
		Length: o.Length, MicroBatch: o.Batch, Accumulation: 1, Replicas: 1,
	}}
	if o.Task == bert.Pretraining {
		t.program.MaxPredictions = o.Predictions()
	}
	if err := t.open(ctx, p, o.Optimizer); err != nil {
		return Figure{}, err
	}
	defer func() { err = errors.Join(err, t.session.Close(), t.rule.Close()) }()
	for i := range batches {
		t.batches[i] = o.randomBatch(&t.program, i)
	}
	for range 2 { // the first steps allocate
		if err := t.step(ctx); err != nil {
			return Figure{}, err
		}
	}
	t.parts = map[string][]float64{}
	inputs := inputs(o.Precision)
	// The clock changes within tens of milliseconds of vector work, so a limit measured for one millisecond may have
	// another clock than the step.
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

// inputs is the format of the factors of matrix products, as far as the name of a precision tells.
func inputs(precision string) numerics.Format {
	name, _, _ := strings.Cut(precision, "-") // fp16-o2
	name, _, _ = strings.Cut(name, ".")       // fp16.16
	f, err := numerics.ParseFormat(name)
	if err != nil {
		return numerics.FP32
	}
	return f
}

// trainer does steps like harness/train, without data, evaluations and records.
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

// step does one training step. Its part "other" is the time of the backend's call in which the backend does not
// compute: the wire, and the host's scan of the gradients.
func (t *trainer) step(ctx context.Context) error {
	batch := t.batches[t.done%batches]
	t.done++
	parts := map[string]time.Duration{}
	start := time.Now()
	r, err := t.session.Step(ctx, backend.Step{Step: t.done, Sequences: batch.Size, MaskedWeight: batch.MaskedWeight(),
		LabelWeight: batch.LabelWeight()}, one(batch))
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
