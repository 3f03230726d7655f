package emulator_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// Every product's inputs are in the format that it names.
func init() { kernels.CheckInputs = true }

// small has extents that are no multiples of a vector, and dropout.
var small = bert.Config{
	VocabSize: 53, HiddenSize: 36, NumHiddenLayers: 2, NumAttentionHeads: 3, IntermediateSize: 44, HiddenAct: bert.GELU,
	HiddenDropoutProb: 0.1, AttentionProbsDropoutProb: 0.2, MaxPositionEmbeddings: 24, TypeVocabSize: 2,
	InitializerRange: 0.1, LayerNormEps: 1e-12, AttentionMask: -10000,
}

// half is FP16 in every store, as on an IPU.
func half(stochastic bool) emulator.Policy {
	s := emulator.Store{Format: numerics.FP16, Stochastic: stochastic}
	r := emulator.Row{Out: s, Grad: s, Weight: s}
	return emulator.Policy{Partials: emulator.Partials{Chunk: 16, Store: s}, Embed: r, Linear: r, Pointwise: r, Residual: r, Norm: r, Statistics: s, Scores: r,
		Masked: s, Exponential: s, Reciprocal: s, Probabilities: r, LossGrad: s, Accumulate: s, Reduce: s, Parameters: s, Overflow: numerics.Clip}
}

// bench is a network with its memory and a batch.
type bench struct {
	model         *bert.Model
	params, grads []float32
	network       *bert.Network
	batch         *bert.Batch
	objective     bert.Objective
	limit         bert.Shape
}

func newBench(t testing.TB, c bert.Config, task bert.Task, size int) *bench {
	t.Helper()
	head := bert.Head{Task: task}
	if task == bert.Classification {
		head.Labels = 3
	}
	if task == bert.MultipleChoice {
		head.Labels = 2
	}
	m, err := bert.New(c, head)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{model: m, params: make([]float32, m.Layout.Len()), grads: make([]float32, m.Layout.Len()), limit: bert.Shape{Size: size, Length: 20, Predictions: 3}}
	bert.Initialize(c, m.Layout, b.params, 1)
	b.network, err = bert.NewNetwork(m, b.params, b.grads, b.limit)
	if err != nil {
		t.Fatal(err)
	}
	b.batch = pretrainingBatch(c, size, b.limit.Length, b.limit.Predictions)
	b.batch.StartPositions, b.batch.EndPositions, b.batch.Labels = make([]int32, size), make([]int32, size), make([]int32, size)
	for i := range size {
		b.batch.StartPositions[i], b.batch.EndPositions[i], b.batch.Labels[i] = int32(i%14), int32(i*3%14), int32(i%3)
		if task == bert.MultipleChoice {
			b.batch.Labels[i] = int32((i/2 + i + 1) % 2) // the first of two, the second, the first ...
		}
	}
	b.objective = bert.Objective{Scale: 1, Sequences: float64(size), MaskedWeight: b.batch.MaskedWeight()}
	return b
}

// pretrainingBatch is a batch of random tokens, with padding at the end of every fourth sequence.
func pretrainingBatch(c bert.Config, size, length, predictions int) *bert.Batch {
	r := rand.New(rand.NewPCG(1, 1))
	ids := func(n, limit int) []int32 {
		values := make([]int32, n)
		for i := range values {
			values[i] = int32(r.IntN(limit))
		}
		return values
	}
	b := &bert.Batch{Size: size, Length: length, Predictions: predictions,
		InputIDs: ids(size*length, c.VocabSize), TokenTypeIDs: ids(size*length, c.TypeVocabSize), AttentionMask: make([]int32, size*length),
		MaskedLMPositions: ids(size*predictions, length), MaskedLMIDs: ids(size*predictions, c.VocabSize), MaskedLMWeights: make([]float32, size*predictions),
		NextSentenceLabels: ids(size, 2)}
	for i := range b.AttentionMask {
		if i/length%4 != 3 || i%length < length*3/4 {
			b.AttentionMask[i] = 1
		}
	}
	for i := range b.MaskedLMWeights {
		b.MaskedLMWeights[i] = 1
	}
	return b
}

// run is a training pass over part of the batch.
func (b *bench) run(t testing.TB, d *emulator.Device, batch *bert.Batch) bert.Losses {
	t.Helper()
	p, l := b.forward(t, d, batch)
	b.network.Backward(d, p)
	return l
}

// forward is its first half.
func (b *bench) forward(t testing.TB, d *emulator.Device, batch *bert.Batch) (*bert.Pass, bert.Losses) {
	t.Helper()
	p := &bert.Pass{Seed: 5, Step: 2, Train: true}
	l, err := b.network.Forward(d, p, batch, &b.objective)
	if err != nil {
		t.Fatal(err)
	}
	return p, l
}

// TestFiniteDifferences: for every tensor, the loss moved by ±h along its gradient g differs by 2h·|g| (central difference). Dropout is on: its
// masks are the same in all passes. h moves the tensor by 0.1 to 1% of its typical size, so that the difference stands 100 times above the
// rounding of an FP32 loss (1e-7) and the cubic term stays below 1%.
func TestFiniteDifferences(t *testing.T) {
	// Thousands of passes of a small network are no work for two threads, and FP32 has every input.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	kernels.CheckInputs = false
	defer func() { kernels.CheckInputs = true }()
	for _, task := range bert.Tasks() {
		for _, act := range []bert.Activation{bert.GELU, bert.GELUNew} {
			t.Run(fmt.Sprintf("%s/%s", task, act), func(t *testing.T) {
				c := small
				c.HiddenAct = act
				b := newBench(t, c, task, 4)
				d := emulator.New(emulator.Policy{})
				b.run(t, d, b.batch)
				whole := norm(b.grads)
				grads := slices.Clone(b.grads)
				for _, tensor := range b.model.Layout.Tensors() {
					g := tensor.Of(grads)
					size := norm(g)
					if size < 1e-4*whole {
						continue // the bias of a key, and what else vanishes
					}
					h := min(0.01*math.Sqrt(float64(len(g))), 0.02/size)
					params := tensor.Of(b.params)
					before := slices.Clone(params)
					var loss [2]float64
					for side, sign := range []float64{-1, 1} {
						for i := range params {
							params[i] = float32(float64(before[i]) + sign*h*float64(g[i])/size)
						}
						_, l := b.forward(t, d, b.batch)
						loss[side] = l.Total()
					}
					copy(params, before)
					if slope := (loss[1] - loss[0]) / (2 * h); math.Abs(slope-size) > 0.02*size {
						t.Errorf("%s: the loss has slope %.6g along the gradient of norm %.6g", tensor.Name, slope, size)
					}
				}
			})
		}
	}
}

// TestMultipleChoice: the loss of a question is the cross-entropy of the softmax over its choices, whose logits are those of one classifier.
func TestMultipleChoice(t *testing.T) {
	b := newBench(t, small, bert.MultipleChoice, 4)
	d := emulator.New(emulator.Policy{})
	l, err := b.network.Forward(d, &bert.Pass{}, b.batch, &b.objective)
	if err != nil {
		t.Fatal(err)
	}
	shape, logits, ok := b.network.Output("logits")
	if !ok || !slices.Equal(shape, []int{4, 1}) {
		t.Fatalf("logits have shape %v, want 4 1", shape)
	}
	var want bert.Loss
	for q := range 2 {
		right, wrong := float64(logits[3*q]), float64(logits[1+q]) // labels are 1 0, 0 1
		want.Add(bert.Loss{Sum: math.Log1p(math.Exp(wrong - right)), Weight: 1})
		if right > wrong {
			want.Correct++
		}
	}
	// FP32 logits of the size of 1.
	if math.Abs(l.Labels.Sum-want.Sum) > 1e-5 || l.Labels.Weight != 2 || l.Labels.Correct != want.Correct {
		t.Errorf("loss %+v, want %+v", l.Labels, want)
	}
}

func norm(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// relative is the norm of x - y over the norm of y.
func relative(x, y []float32) float64 {
	d := make([]float32, len(x))
	for i := range d {
		d[i] = x[i] - y[i]
	}
	return norm(d) / norm(y)
}

// TestCutIsTheSame: the gradients of unequal micro-batches add up to that of the whole, dropout masks included, but for the order of sums.
func TestCutIsTheSame(t *testing.T) {
	b := newBench(t, small, bert.Pretraining, 5)
	d := emulator.New(emulator.Policy{})
	whole := b.run(t, d, b.batch)
	want := slices.Clone(b.grads)
	sum := make([]float32, len(want))
	var losses bert.Losses
	for _, cut := range [][2]int{{0, 1}, {1, 4}, {4, 5}} {
		losses.Add(b.run(t, d, b.batch.Slice(cut[0], cut[1])))
		for i, g := range b.grads {
			sum[i] += g
		}
	}
	if e := relative(sum, want); e > 2e-6 {
		t.Errorf("gradients of micro-batches differ by %.2g from those of the whole", e)
	}
	if e := math.Abs(losses.Total()/whole.Total() - 1); e > 1e-6 {
		t.Errorf("loss %.9g of micro-batches, %.9g of the whole", losses.Total(), whole.Total())
	}
}

// TestRoundingOfActivationsKeepsToTheSample: without partial sums and weight gradients, stochastic rounding of a sample does not depend on the cut.
func TestRoundingOfActivationsKeepsToTheSample(t *testing.T) {
	policy := half(true)
	policy.Partials = emulator.Partials{}
	d := emulator.New(policy)
	b := newBench(t, small, bert.Pretraining, 5)
	outputs := func(batch *bert.Batch) []float32 {
		p := &bert.Pass{Seed: 5, Step: 2}
		if _, err := b.network.Forward(d, p, batch, nil); err != nil {
			t.Fatal(err)
		}
		_, hidden, _ := b.network.Output("sequence_output")
		_, logits, _ := b.network.Output("mlm_logits")
		return slices.Concat(hidden, logits)
	}
	hidden, logits := 20*small.HiddenSize, 3*small.VocabSize
	whole := outputs(b.batch)
	part := outputs(b.batch.Slice(2, 4))
	if !slices.Equal(part[:2*hidden], whole[2*hidden:4*hidden]) {
		t.Error("hidden states of samples 2 and 3 depend on the micro-batch")
	}
	if !slices.Equal(part[2*hidden:], whole[5*hidden+2*logits:5*hidden+4*logits]) {
		t.Error("logits of samples 2 and 3 depend on the micro-batch")
	}
}

// TestWorkersDoNotMatter: equal bits for any GOMAXPROCS.
func TestWorkersDoNotMatter(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, policy := range map[string]emulator.Policy{"fp32": {}, "tf32": {Inputs: numerics.TF32}, "fp16 stochastic": half(true)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, small, bert.Pretraining, 7)
			var want []float32
			for _, workers := range []int{1, 2, 3, 5} {
				runtime.GOMAXPROCS(workers)
				b.run(t, emulator.New(policy), b.batch)
				if want == nil {
					want = slices.Clone(b.grads)
				}
				if !slices.Equal(b.grads, want) {
					t.Errorf("gradients with %d workers differ from those with 1", workers)
				}
			}
		})
	}
}

// TestReadTokens: a token that several heads read is one, with one dropout mask; evaluation after training computes all tokens.
func TestReadTokens(t *testing.T) {
	b := newBench(t, small, bert.Pretraining, 2)
	b.batch.MaskedLMPositions = []int32{7, 0, 7, 0, 4, 0}
	d := &gathers{Device: emulator.New(emulator.Policy{})}
	p := &bert.Pass{Seed: 1, Step: 1, Train: true}
	if _, err := b.network.Forward(d, p, b.batch, &b.objective); err != nil {
		t.Fatal(err)
	}
	b.network.Backward(d, p)
	masked, first := d.seen[1], d.seen[2]
	row := func(of []float32, i int) []float32 { return of[i*small.HiddenSize:][:small.HiddenSize] }
	for name, pair := range map[string][2][]float32{
		"twice the same position":       {row(masked, 0), row(masked, 2)},
		"first token and prediction":    {row(first, 0), row(masked, 1)},
		"first token, second sequence":  {row(first, 1), row(masked, 3)},
		"first token, third prediction": {row(first, 1), row(masked, 5)},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s: two hidden states", name)
		}
	}
	fresh := newBench(t, small, bert.Pretraining, 2)
	var hidden [2][]float32
	for i, n := range []*bert.Network{b.network, fresh.network} {
		if _, err := n.Forward(d.Device, &bert.Pass{}, b.batch, nil); err != nil {
			t.Fatal(err)
		}
		shape, values, _ := n.Output("sequence_output")
		if shape.Len() != len(values) {
			t.Fatalf("%d values of shape %v", len(values), shape)
		}
		hidden[i] = values
	}
	if !slices.Equal(hidden[0], hidden[1]) {
		t.Error("hidden states of an evaluation depend on the training pass before")
	}
}

// TestScatter: of equal rows the first counts, and rows that are not there are 0.
func TestScatter(t *testing.T) {
	all := []float32{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}
	op := &bert.Gather{Width: 2, Rows: []int32{2, 0, 2, 4, 4, 3}}
	emulator.New(emulator.Policy{}).Scatter(&bert.Pass{Size: 2}, op, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, all)
	if want := []float32{3, 4, 0, 0, 1, 2, 11, 12, 7, 8, 0, 0}; !slices.Equal(all, want) {
		t.Errorf("scattered to %g, want %g", all, want)
	}
}

// gathers keeps what is gathered: hidden states for the last layer, masked ones, first ones.
type gathers struct {
	bert.Device
	seen [][]float32
}

func (g *gathers) Gather(p *bert.Pass, op *bert.Gather) {
	g.Device.Gather(p, op)
	g.seen = append(g.seen, slices.Clone(op.Y))
}

// TestBuffersKeepNothing: a pass gives the same bits after a larger micro-batch and into gradients of any content.
func TestBuffersKeepNothing(t *testing.T) {
	for _, task := range []bert.Task{bert.Pretraining, bert.QuestionAnswering, bert.Classification} {
		d := emulator.New(half(true))
		fresh, used := newBench(t, small, task, 6), newBench(t, small, task, 6)
		part := fresh.batch.Slice(1, 3)
		fresh.run(t, d, part)
		used.run(t, d, used.batch)
		for i := range used.grads {
			used.grads[i] = float32(math.NaN())
		}
		used.run(t, d, part)
		if !slices.Equal(fresh.grads, used.grads) {
			t.Errorf("%s: gradients depend on what the network computed before", task)
		}
	}
}

// TestStores: with FP16 in every store, outputs and gradients hold only values of FP16; and no sum escapes the table.
func TestStores(t *testing.T) {
	for _, stochastic := range []bool{false, true} {
		d := emulator.New(half(stochastic))
		for _, task := range bert.Tasks() {
			b := newBench(t, small, task, 4)
			b.objective.Scale = 1024
			for i, v := range b.params {
				b.params[i] = numerics.FP16.Round(v)
			}
			b.run(t, d, b.batch)
			for _, tensor := range b.model.Layout.Tensors() {
				for _, g := range tensor.Of(b.grads) {
					if g != numerics.FP16.Round(g) {
						t.Fatalf("%s: gradient of %s has %g, which FP16 lacks", task, tensor.Name, g)
					}
				}
			}
			if _, err := b.network.Forward(d, &bert.Pass{Seed: 5}, b.batch, nil); err != nil {
				t.Fatal(err)
			}
			for _, name := range bert.OutputNames(b.model.Config, b.model.Head) {
				_, values, ok := b.network.Output(name)
				if !ok {
					t.Fatalf("%s has no output %s", task, name)
				}
				for _, v := range values {
					if v != numerics.FP16.Round(v) {
						t.Fatalf("%s: output %s has %g, which FP16 lacks", task, name, v)
					}
				}
			}
		}
	}
}

// TestPolicyReachesEveryOperator: each store of the policy changes some bit of the gradients or the outputs.
func TestPolicyReachesEveryOperator(t *testing.T) {
	s := emulator.Store{Format: numerics.BF16}
	for name, policy := range map[string]emulator.Policy{
		"inputs":             {Inputs: numerics.BF16},
		"partials":           {Partials: emulator.Partials{Chunk: 8, Store: s}},
		"embed out":          {Embed: emulator.Row{Out: s}},
		"embed grad":         {Embed: emulator.Row{Grad: s}},
		"embed weight":       {Embed: emulator.Row{Weight: s}},
		"linear out":         {Linear: emulator.Row{Out: s}},
		"linear grad":        {Linear: emulator.Row{Grad: s}},
		"linear weight":      {Linear: emulator.Row{Weight: s}},
		"pointwise out":      {Pointwise: emulator.Row{Out: s}},
		"pointwise grad":     {Pointwise: emulator.Row{Grad: s}},
		"residual out":       {Residual: emulator.Row{Out: s}},
		"residual grad":      {Residual: emulator.Row{Grad: s}},
		"norm out":           {Norm: emulator.Row{Out: s}},
		"norm grad":          {Norm: emulator.Row{Grad: s}},
		"norm weight":        {Norm: emulator.Row{Weight: s}},
		"statistics":         {Statistics: s},
		"scores out":         {Scores: emulator.Row{Out: s}},
		"scores grad":        {Scores: emulator.Row{Grad: s}},
		"exponential":        {Exponential: s},
		"masked":             {Masked: s, Exponential: emulator.Store{Format: numerics.TF32}},
		"reciprocal":         {Reciprocal: s, Exponential: emulator.Store{Format: numerics.TF32}},
		"probabilities out":  {Probabilities: emulator.Row{Out: s}},
		"probabilities grad": {Probabilities: emulator.Row{Grad: s}},
		"loss grad":          {LossGrad: s},
	} {
		if err := policy.Validate(); err != nil {
			t.Fatal(err)
		}
		b := newBench(t, small, bert.Pretraining, 4)
		b.run(t, emulator.New(emulator.Policy{}), b.batch)
		want := slices.Clone(b.grads)
		b.run(t, emulator.New(policy), b.batch)
		if e := relative(b.grads, want); e == 0 || e > 0.2 {
			t.Errorf("%s in BF16 changes the gradient by %.3g, want more than 0 and at most 0.2", name, e)
		}
	}
}

// TestOverflow: values beyond FP16 are clipped and counted, or become NaN.
func TestOverflow(t *testing.T) {
	for overflow, finite := range map[numerics.Overflow]bool{numerics.Clip: true, numerics.NaN: false, numerics.Inf: false} {
		policy := half(false)
		policy.Overflow = overflow
		d := emulator.New(policy)
		b := newBench(t, small, bert.Pretraining, 4)
		b.objective.Scale = 1 << 24
		b.run(t, d, b.batch)
		got := true
		for _, g := range b.grads {
			got = got && !math.IsNaN(float64(g)) && !math.IsInf(float64(g), 0)
		}
		if got != finite {
			t.Errorf("overflow %d: gradients are finite: %v, want %v", overflow, got, finite)
		}
		if n := d.TakeOverflows(); (n > 0) != (overflow != numerics.Inf) {
			t.Errorf("overflow %d: %d values counted", overflow, n)
		}
		if d.TakeOverflows() != 0 {
			t.Error("the count is not taken")
		}
	}
}

// TestPassesAtOnce: a device serves micro-batches at the same time, as a pipeline wants, with the bits that they have one after the other.
func TestPassesAtOnce(t *testing.T) {
	d := emulator.New(half(true))
	const passes = 4
	var want [passes][]float32
	benches := make([]*bench, passes)
	for i := range benches {
		benches[i] = newBench(t, small, bert.Pretraining, passes)
		benches[i].run(t, d, benches[i].batch.Slice(i, i+1))
		want[i] = slices.Clone(benches[i].grads)
	}
	var done sync.WaitGroup
	for i, b := range benches {
		done.Go(func() { b.run(t, d, b.batch.Slice(i, i+1)) })
	}
	done.Wait()
	for i, b := range benches {
		if !slices.Equal(b.grads, want[i]) {
			t.Errorf("pass %d has other gradients beside the others than alone", i)
		}
	}
}

// TestRecomputation: a layer that is run again from its input just before its backward pass gives the same gradients, dropout and stochastic
// rounding included.
func TestRecomputation(t *testing.T) {
	d := emulator.New(half(true))
	b := newBench(t, small, bert.Classification, 4)
	b.run(t, d, b.batch)
	want := slices.Clone(b.grads)
	p := &bert.Pass{Seed: 5, Step: 2, Train: true}
	if _, err := b.network.Forward(d, p, b.batch, &b.objective); err != nil {
		t.Fatal(err)
	}
	backward := b.network.BackwardWork()
	for _, w := range backward {
		if w.Unit > 0 && w.Unit < small.Units()-1 {
			b.network.Run(d, p, nil, bert.Work{Unit: w.Unit})
		}
		b.network.Run(d, p, nil, w)
	}
	if !slices.Equal(b.grads, want) {
		t.Error("recomputation changes the gradients")
	}
}
