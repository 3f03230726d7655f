package optimizertest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/random"
	"harness.invalid/core/tensor"
)

// layout has every kind of tensor, lengths with and without padding, and one tensor of several blocks.
func layout() *tensor.Layout {
	l, err := tensor.NewLayout(
		tensor.Tensor{Name: "embeddings.weight", Shape: tensor.Shape{31, 7}, Kind: tensor.Embedding},
		tensor.Tensor{Name: "dense.weight", Shape: tensor.Shape{3, 2*optimizer.BlockLen/3 + 5}, Kind: tensor.Weight},
		tensor.Tensor{Name: "dense.bias", Shape: tensor.Shape{1}, Kind: tensor.Bias},
		tensor.Tensor{Name: "LayerNorm.weight", Shape: tensor.Shape{32}, Kind: tensor.NormScale},
		tensor.Tensor{Name: "LayerNorm.bias", Shape: tensor.Shape{33}, Kind: tensor.NormBias},
	)
	if err != nil {
		panic("optimizertest: " + err.Error())
	}
	return l
}

// memory returns memory as at the start of a run, with nonzero parameters.
func (s *suite) memory() (optimizer.Memory, error) { return s.memoryOf(layout()) }

// memoryOf is memory with a given layout.
func (s *suite) memoryOf(l *tensor.Layout) (optimizer.Memory, error) {
	slots, err := s.o.Slots(s.ctx, nil)
	if err != nil {
		return optimizer.Memory{}, fmt.Errorf("slots: %w", err)
	}
	m := optimizer.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	fill(l, m.Params, 0)
	return m, nil
}

// fill draws the values of all tensors from a stream of the step and clears the padding.
func fill(l *tensor.Layout, section []float32, step int) {
	clear(section)
	stream := random.New(1, random.Data)
	stream.Step = uint32(step)
	r := rand.New(&random.Source{Stream: stream})
	for _, t := range l.Tensors() {
		for i := range t.Of(section) {
			section[t.Offset+i] = float32(0.1 * r.NormFloat64())
		}
	}
}

// steps runs the updates from first to last in one session, with gradients that depend only on the step.
func (s *suite) steps(m optimizer.Memory, first, last int) (err error) {
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for step := first; step <= last; step++ {
		if err := s.step(session, m, step); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) step(session optimizer.Session, m optimizer.Memory, step int) error {
	_, err := s.update(session, m, optimizer.Step{Step: step, LR: rate}, func(n int) { fill(m.Layout, m.Grads, n) })
	return err
}

// second is the offset from the number of a step's first gradient to that of its second.
const second = 1000

// update runs one step as the training loop does. gradients sets the gradients with a number: that of the step and, for a
// rule that probes, that of the second gradient. Odd steps come with the norm of the gradients, as from a host that knows
// it, even ones without.
func (s *suite) update(
	session optimizer.Session, m optimizer.Memory, step optimizer.Step, gradients func(n int),
) (r optimizer.StepResult, err error) {
	set := func(n int) {
		if gradients(n); step.Step%2 == 1 {
			step.GradientNorm = optimizer.Norm(optimizer.Blocks(m.Layout), m.Grads)
		}
	}
	set(step.Step)
	if s.info.Probes {
		before := slices.Clone(m.Params)
		if err := s.probe(session, step); err != nil {
			return r, err
		}
		copy(m.Params, before)
		set(step.Step + second)
	}
	if r, err = session.Step(s.ctx, step); err != nil {
		return r, fmt.Errorf("step %d: %w", step.Step, err)
	}
	return r, nil
}

func (s *suite) probe(session optimizer.Session, step optimizer.Step) error {
	p, ok := session.(optimizer.Prober)
	if !ok {
		return errors.New("it declares that it probes, but its session is no Prober")
	}
	if err := p.Probe(s.ctx, step); err != nil {
		return fmt.Errorf("probe of step %d: %w", step.Step, err)
	}
	return nil
}

func (s *suite) average(session optimizer.Session, updates int) error {
	a, ok := session.(optimizer.Averager)
	if !ok {
		return errors.New("it declares that it averages, but its session is no Averager")
	}
	if err := a.Average(s.ctx, updates); err != nil {
		return fmt.Errorf("average after step %d: %w", updates, err)
	}
	return nil
}

// rate is the learning rate of the suite: small enough that no rule overshoots, large enough that every float32 parameter
// moves.
const rate = 0.01

// padded reports nonzero padding in a section.
func padded(l *tensor.Layout, section []float32) error {
	end := 0
	for _, t := range l.Tensors() {
		if err := zero(section, end, t.Offset); err != nil {
			return fmt.Errorf("before %s: %w", t.Name, err)
		}
		end = t.Offset + t.Len()
	}
	return zero(section, end, len(section))
}

func zero(section []float32, begin, end int) error {
	for i := begin; i < end; i++ {
		if section[i] != 0 {
			return fmt.Errorf("padding element %d is %g, want 0", i, section[i])
		}
	}
	return nil
}

// snapshot copies parameters and slots.
func snapshot(m optimizer.Memory) [][]float32 {
	sections := [][]float32{slices.Clone(m.Params)}
	for _, s := range m.Slots {
		sections = append(sections, slices.Clone(s))
	}
	return sections
}

// differ reports the first element whose bits differ.
func differ(what string, want, got [][]float32) error {
	for i := range want {
		for j, w := range want[i] {
			if g := got[i][j]; math.Float32bits(w) != math.Float32bits(g) {
				return fmt.Errorf("%s: section %d, element %d is %g, want %g with equal bits", what, i, j, g, w)
			}
		}
	}
	return nil
}

func finite(v float32) bool { return v-v == 0 }
