package train

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// ErrContract is wrapped by errors about a plugin that answered without doing what it is there for, or did more.
var ErrContract = errors.New("the plugin broke its contract")

func broken(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrContract)
}

// checker looks at a sample of the shared memory before and after the calls of a step. Every call looks at other
// elements, so that in time it sees all; of every tensor it sees at least one.
type checker struct {
	memory Memory
	stride int
	start  int // of the sample of this call

	before    []float32 // parameters and slots at the sample
	gradients []float32 // at the sample of start 0, after the last gradient
	params    []float32 // the same of the parameters at which it was taken
	norm      float64   // of the sampled gradients, which that of all can't be below
	spoilt    bool      // the last call changed what it must not, whether or not it came to its end
	idle      int       // updates in a row that changed nothing that was looked at
}

const (
	// sampled is about how many elements of each section are looked at: one in 2700 of BERT-Mini.
	sampled = 4096
	// canary is a NaN that nothing computes.
	canary = 0x7fc0dead
	// normTolerance bounds the relative error of a norm that a plugin sums up in float32, block by block.
	normTolerance = 1e-3
	// mostIdle is how many updates may change nothing: a rate may be too small for the sampled parameters once.
	mostIdle = 3
)

func newChecker(m Memory) *checker {
	return &checker{memory: m, stride: max(1, m.Layout.Len()/sampled)}
}

// sample yields the sampled elements of a section, counted from start. The pointers are into the section.
func (c *checker) sample(start int, section []float32) iter.Seq2[tensor.Tensor, *float32] {
	return func(yield func(tensor.Tensor, *float32) bool) {
		for _, t := range c.memory.Layout.Tensors() {
			values := t.Of(section)
			for i := start % min(c.stride, len(values)); i < len(values); i += c.stride {
				if !yield(t, &values[i]) {
					return
				}
			}
		}
	}
}

// take copies the sample of a section to the end of a slice.
func (c *checker) take(into []float32, start int, section []float32) []float32 {
	for _, v := range c.sample(start, section) {
		into = append(into, *v)
	}
	return into
}

// keep remembers parameters and slots.
func (c *checker) keep() {
	c.start = (c.start + 389) % max(2, c.stride) // a prime: all starts follow each other
	c.before = c.take(c.before[:0], c.start, c.memory.Params)
	for _, s := range c.memory.Slots {
		c.before = c.take(c.before, c.start, s)
	}
}

// changed names the first tensor in which parameters or slots differ from those that were kept; empty: none does.
func (c *checker) changed() string {
	i := 0
	for n, section := range append([][]float32{c.memory.Params}, c.memory.Slots...) {
		for t, v := range c.sample(c.start, section) {
			if math.Float32bits(*v) != math.Float32bits(c.before[i]) {
				if n == 0 {
					return "parameters of " + t.Name
				}
				return fmt.Sprintf("slot %d of %s", n, t.Name)
			}
			i++
		}
	}
	return ""
}

// counted passes batches on and counts them.
type counted struct {
	batches iter.Seq2[*bert.Batch, error]
	read    int
	all     bool // the last one was read
}

func (c *counted) each(yield func(*bert.Batch, error) bool) {
	for b, err := range c.batches {
		c.read++
		if !yield(b, err) {
			return
		}
	}
	c.all = true
}

// gradient checks a call that computes a gradient.
func (c *checker) gradient(
	step backend.Step, batches iter.Seq2[*bert.Batch, error],
	compute func(iter.Seq2[*bert.Batch, error]) (backend.StepResult, error),
) (backend.StepResult, error) {
	c.keep()
	for _, g := range c.sample(c.start, c.memory.Grads) {
		*g = math.Float32frombits(canary)
	}
	count := counted{batches: batches}
	r, err := compute(count.each)
	what := c.changed()
	c.spoilt = what != ""
	if err != nil {
		return r, err
	}
	if what != "" {
		return r, broken("it changed the %s while it computed a gradient", what)
	}
	if !count.all {
		return r, broken("it answered after %d micro-batches, before the last one", count.read)
	}
	if want, got := step.MaskedWeight, r.Losses.MaskedLM.Weight; math.Abs(got-want) > normTolerance*want {
		return r, broken("its loss is over masked tokens of weight %g, and the batches have %g", got, want)
	}
	if want, got := step.LabelWeight, r.Losses.Labels.Weight; want > 0 && math.Abs(got-want) > normTolerance*want {
		return r, broken("its loss is over %g labelled tokens, and the batches have %g", got, want)
	}
	if !r.Finite {
		return r, nil // the step is skipped, whatever lies there
	}
	return r, c.fresh(r.GradientNorm)
}

// fresh checks that a gradient was computed and not left over, and that its norm can be true.
func (c *checker) fresh(norm float64) error {
	for t, g := range c.sample(c.start, c.memory.Grads) {
		if math.Float32bits(*g) == canary {
			return broken("it left the gradients of %s unset", t.Name)
		}
	}
	gradients := c.take(nil, 0, c.memory.Grads)
	params := c.take(nil, 0, c.memory.Params)
	if c.gradients == nil { // the host clears them at the start
		c.gradients, c.params = make([]float32, len(gradients)), nil
	}
	if same(gradients, c.gradients) && !same(params, c.params) {
		return broken("it left the gradients of the step before, or none")
	}
	c.gradients, c.params = gradients, params
	sum := 0.0
	for _, g := range gradients {
		sum += float64(g) * float64(g)
	}
	c.norm = math.Sqrt(sum)
	return c.plausible(norm)
}

// plausible checks a norm against that of a sample; 0 is one that is not known.
func (c *checker) plausible(norm float64) error {
	if norm != 0 && norm < c.norm*(1-normTolerance) {
		return broken("it reports a gradient norm of %g, and a sample of the gradients has %g", norm, c.norm)
	}
	return nil
}

func same(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// update checks a call that changes parameters and slots at a learning rate. norm is that of the gradient, or 0 if it is
// not known. The call returns the norm that the optimizer reports.
func (c *checker) update(rate, norm float64, step func() (float64, error)) error {
	c.keep()
	reported, err := step()
	if err != nil {
		return err
	}
	if norm > 0 && math.Abs(reported-norm) > normTolerance*norm {
		return broken("it reports a gradient norm of %g, and the gradients have %g", reported, norm)
	}
	if err := c.plausible(reported); err != nil {
		return err
	}
	for n, s := range c.memory.Slots {
		for t, v := range c.sample(c.start, s) {
			if *v-*v != 0 {
				return broken("it left %g in slot %d of %s", *v, n+1, t.Name)
			}
		}
	}
	if c.idle++; rate <= 0 || c.norm == 0 || c.changed() != "" {
		c.idle = 0
	}
	if c.idle == mostIdle {
		return broken("%d updates in a row changed nothing, at a learning rate of %g", mostIdle, rate)
	}
	return nil
}
