package emulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"harness.invalid/core/bert"
	"harness.invalid/core/format"
)

// Delayed takes the scale of a tensor from the largest magnitudes that it had in the steps before, so that a device can
// quantise while it computes. Its state is saved and restored with the run.
//
// The scale of a step is largest value / (largest magnitude of the last History steps · 2^Margin), 1 before there is
// any, and that of the step before where the largest magnitude is 0, infinite or NaN. A step's magnitude is that over all
// its micro-batches and replicas. Source: Transformer Engine, DelayedScaling (pytorch/quantization.py,
// _default_sf_compute). An evaluation takes the scales of the next step; before the first it takes each tensor's own.
type Delayed struct {
	History int `yaml:"history"` // steps, 1 to 65536; 0: scales are those of the tensors themselves
	Margin  int `yaml:"margin"`  // 0 to 32
}

func (d *Delayed) validate() error {
	if d.History < 0 || d.History > 1<<16 || d.Margin < 0 || d.Margin > 32 || d.Margin > 0 && d.History == 0 {
		return fmt.Errorf("emulator: products.delayed is %+v, want a history of 1 to 65536 steps and a margin of 0 to 32", *d)
	}
	return nil
}

// role is which operand of a linear operator a tensor is. Both products that read it share its history.
type role uint8

const (
	inputRole role = iota
	weightRole
	gradientRole
)

// operand is a tensor that has a scale.
type operand struct {
	Layer int     `json:"layer"`
	Op    bert.Op `json:"op"`
	Role  role    `json:"role"`
}

// scaling is the state of delayed scaling, shared by the devices of a session.
type scaling struct {
	Delayed
	mu      sync.Mutex
	step    uint32 // the last one that was begun
	tensors map[operand]*magnitudes
}

// magnitudes are the largest magnitudes of a tensor.
type magnitudes struct {
	Of operand `json:"of"`
	// Kept is behind the scale of the step; 0: there is none yet.
	Kept float32 `json:"kept"`
	// Current is that of the step so far. Infinity stands for NaN, too, here and in Past, and is written as -1.
	Current float32 `json:"current"`
	// Past are those of the history that no later one exceeds, so falling: what can still be its maximum.
	Past []past `json:"past,omitempty"`
}

type past struct {
	Step    uint32  `json:"step"`
	Largest float32 `json:"largest"`
}

func newScaling(d Delayed) *scaling {
	return &scaling{Delayed: d, tensors: map[operand]*magnitudes{}}
}

// take adds the largest magnitude of a tensor to that of its step, and returns the magnitude that the scale of the step
// follows from. It may be called at the same time; what it returns depends on the steps before alone.
func (s *scaling) take(p *bert.Pass, site bert.Site, r role, largest float32) float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := operand{site.Layer, site.Op, r}
	m := s.tensors[of]
	if !p.Train {
		if m == nil || s.next(m) == 0 {
			return largest
		}
		return s.widen(s.next(m))
	}
	if p.Step != s.step {
		s.begin(p.Step)
	}
	if m == nil {
		m = &magnitudes{Of: of}
		s.tensors[of] = m
	}
	if !(largest <= math.MaxFloat32) {
		largest = float32(math.Inf(1))
	}
	m.Current = max(m.Current, largest)
	return s.widen(m.Kept)
}

// widen leaves the margin.
func (s *scaling) widen(kept float32) float32 {
	return min(float32(math.Ldexp(float64(kept), s.Margin)), math.MaxFloat32)
}

// begin ends the last step, and sets the scales of the next one.
func (s *scaling) begin(step uint32) {
	for _, m := range s.tensors {
		m.Kept = s.next(m)
		for n := len(m.Past); n > 0 && m.Past[n-1].Largest <= m.Current; n-- {
			m.Past = m.Past[:n-1]
		}
		m.Past = append(m.Past, past{s.step, m.Current})
		m.Current = 0
		for len(m.Past) > 0 && int64(m.Past[0].Step) <= int64(step)-1-int64(s.History) {
			m.Past = slices.Delete(m.Past, 0, 1)
		}
	}
	s.step = step
}

// next is what the scale of the step after the last one follows from.
func (s *scaling) next(m *magnitudes) float32 {
	largest := m.Current
	for _, p := range m.Past {
		if int64(p.Step) > int64(s.step)-int64(s.History) {
			largest = max(largest, p.Largest)
		}
	}
	if largest == 0 || largest > math.MaxFloat32 {
		return m.Kept
	}
	return largest
}

// delayed reports whether the scale of a format can follow a history: there is one of the whole tensor.
func delayed(q *format.Quantizer) bool {
	if q == nil || q.Format().Scale == nil {
		return false
	}
	s := q.Format().Scale
	return s.Rows == 0 && s.Columns == 0
}

// scalingState is how the state is written.
type scalingState struct {
	Step    uint32        `json:"step"`
	Tensors []*magnitudes `json:"tensors"`
}

// each calls f for every magnitude that may be infinite, which JSON does not have.
func (s *scalingState) each(f func(v *float32)) {
	for _, m := range s.Tensors {
		f(&m.Current)
		for i := range m.Past {
			f(&m.Past[i].Largest)
		}
	}
}

func (s *scaling) save() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := scalingState{Step: s.step}
	for _, m := range s.tensors {
		c := *m
		c.Past = slices.Clone(m.Past)
		state.Tensors = append(state.Tensors, &c)
	}
	slices.SortFunc(state.Tensors, func(a, b *magnitudes) int {
		return cmp.Or(cmp.Compare(a.Of.Layer, b.Of.Layer), cmp.Compare(a.Of.Op, b.Of.Op), cmp.Compare(a.Of.Role, b.Of.Role))
	})
	state.each(func(v *float32) {
		if *v > math.MaxFloat32 {
			*v = -1
		}
	})
	return json.Marshal(state)
}

// load restores what save returned. An invalid state leaves the scaling as it was.
func (s *scaling) load(text json.RawMessage) error {
	var state scalingState
	if err := json.Unmarshal(text, &state); err != nil {
		return fmt.Errorf("state of delayed scaling: %w", err)
	}
	if slices.Contains(state.Tensors, nil) {
		return errors.New("state of delayed scaling has null in place of a tensor")
	}
	var err error
	state.each(func(v *float32) {
		switch {
		case *v == -1:
			*v = float32(math.Inf(1))
		case !(*v >= 0):
			err = fmt.Errorf("state of delayed scaling has a largest magnitude of %g, want at least 0, or -1 for infinity", *v)
		}
	})
	tensors := map[operand]*magnitudes{}
	for _, m := range state.Tensors {
		falling := slices.IsSortedFunc(m.Past, func(a, b past) int { return cmp.Compare(a.Step, b.Step) })
		if !(m.Kept >= 0) || !falling || tensors[m.Of] != nil {
			err = fmt.Errorf("state of delayed scaling of %+v: want it once, a scale's magnitude of at least 0, and steps in order", m.Of)
		}
		tensors[m.Of] = m
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.tensors = state.Step, tensors
	return nil
}
