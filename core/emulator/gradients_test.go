package emulator_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
)

// TestFiniteDifferences: for every tensor, the loss moved by ±h along its gradient g differs by 2h·|g| (central
// difference). Dropout is on: its masks are the same in all passes. h moves the tensor by 0.1 to 1% of its typical
// size, so that the difference stands 100 times above the rounding of an FP32 loss (1e-7) and the cubic term stays
// below 1%.
func TestFiniteDifferences(t *testing.T) {
	// Thousands of passes of a small network are too little work for two threads, and every input is an FP32 value.
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
						continue // such as the bias of keys, which does not change the softmax
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

// TestMultipleChoice: the loss of a question is the cross-entropy of the softmax over its choices, whose logits are
// those of one classifier.
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

// TestCutIsTheSame: the gradients of unequal micro-batches add up to that of the whole, dropout masks included, but
// for the order of sums.
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

// TestBuffersKeepNothing: a pass gives the same bits after a larger micro-batch, and whatever its gradients held
// before.
func TestBuffersKeepNothing(t *testing.T) {
	for _, task := range []bert.Task{bert.Pretraining, bert.QuestionAnswering, bert.Classification, bert.TokenClassification} {
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

// TestPassesAtOnce: a device serves several micro-batches at the same time, as a pipeline does, with the bits that
// each has alone.
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

// TestRecomputation: a layer that is run again from its input just before its backward pass gives the same
// gradients, dropout and stochastic rounding included.
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
