package optimizertest

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// costLayout is layout with matrices that are large enough for matrix rules: tall, wide and square.
func costLayout() *tensor.Layout {
	l, err := tensor.NewLayout(append(layout().Tensors(),
		tensor.Tensor{Name: "tall.weight", Shape: tensor.Shape{48, 20}, Kind: tensor.Weight},
		tensor.Tensor{Name: "wide.weight", Shape: tensor.Shape{18, 40}, Kind: tensor.Weight},
		tensor.Tensor{Name: "square.weight", Shape: tensor.Shape{24, 24}, Kind: tensor.Weight},
	)...)
	if err != nil {
		panic("optimizertest: " + err.Error())
	}
	return l
}

// statesCost checks the cost that a rule states against its slots after some steps. A rule that states none passes.
func (s *suite) statesCost() error {
	coster, ok := s.o.(optimizer.Coster)
	if !ok {
		return nil
	}
	l := costLayout()
	c, err := coster.Cost(s.ctx, nil, l)
	if errors.Is(err, optimizer.ErrNoCost) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.Check(l); err != nil {
		return err
	}
	if c.Probes != s.info.Probes {
		return fmt.Errorf("its cost has probes %t, its description %t", c.Probes, s.info.Probes)
	}
	m, err := s.memoryOf(l)
	if err != nil {
		return err
	}
	names, err := s.o.Slots(s.ctx, nil)
	if err != nil {
		return err
	}
	if len(c.Slots) != len(names) {
		return fmt.Errorf("it states the formats of %d slots, and has %d", len(c.Slots), len(names))
	}
	for i, slot := range c.Slots {
		if slot.Name != names[i] {
			return fmt.Errorf("it states slot %d as %q, and calls it %q", i, slot.Name, names[i])
		}
	}
	if err := s.steps(m, 1, 3); err != nil {
		return err
	}
	for i, t := range l.Tensors() {
		for k, slot := range c.Slots {
			if err := holdState(t.Of(m.Slots[k]), c.Tensors[i].State, k, slot); err != nil {
				return fmt.Errorf("slot %s of %s: %w", slot.Name, t.Name, err)
			}
		}
	}
	return nil
}

// holdState checks a tensor's part of slot k against its stated size and format. With random gradients hardly an element of
// the state is zero.
func holdState(values []float32, state []int64, k int, slot optimizer.Slot) error {
	stated := len(values)
	if state != nil {
		stated = int(state[k])
	}
	used := 0
	for _, v := range values {
		if v != 0 {
			used++
		}
		if most := significand[slot.Format]; most > 0 && significandBits(v) > most {
			return fmt.Errorf("%g has %d significant bits, %s has %d", v, significandBits(v), slot.Format, most)
		}
	}
	if used > stated || used < stated/2 {
		return fmt.Errorf("%d of %d elements are in use, and it states %d", used, len(values), stated)
	}
	return nil
}

// significand is the number of significant bits in formats narrower than float32. Their range is not checked, since numbers
// may be scaled by a power of two.
var significand = map[string]int{"fp16": 11, "bf16": 8}

func significandBits(v float32) int {
	m := math.Float32bits(v) & (1<<23 - 1)
	if m == 0 {
		return 1
	}
	return 24 - bits.TrailingZeros32(m)
}
