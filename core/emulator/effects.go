package emulator

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/format"
)

// operandNames are the operands as a policy names them, in the order of their draws.
var operandNames = [...]string{"forward.input", "forward.weight", "input_gradient.gradient", "input_gradient.weight",
	"parameter_gradient.gradient", "parameter_gradient.input"}

// effects are what quantisation did to operands in a step, where somebody asked.
type effects struct {
	every uint32 // steps
	mu    sync.Mutex
	of    map[read]*effect
}

// read is an operand as one product reads it.
type read struct {
	site bert.Site
	draw uint32
}

type effect struct {
	format.Effect
	format string
}

// wanted reports whether a pass is inspected.
func (e *effects) wanted(p *bert.Pass) bool { return e != nil && p.Train && p.Step%e.every == 0 }

func (e *effects) add(site bert.Site, draw uint32, q *format.Quantizer, m *format.Matrix, tensor float32) {
	found := q.Effect(m, tensor)
	e.mu.Lock()
	defer e.mu.Unlock()
	at := read{site, draw}
	if e.of[at] == nil {
		e.of[at] = &effect{format: q.Format().Name}
	}
	e.of[at].Add(found)
}

// take returns the effects of a step and forgets them, in the order of layers, operators and operands.
func (e *effects) take(names map[bert.Site]string) []backend.Quantised {
	if e == nil {
		return nil
	}
	reads := make([]read, 0, len(e.of))
	for at := range e.of {
		reads = append(reads, at)
	}
	slices.SortFunc(reads, func(a, b read) int {
		return cmp.Or(cmp.Compare(a.site.Layer, b.site.Layer), cmp.Compare(a.site.Op, b.site.Op), cmp.Compare(a.draw, b.draw))
	})
	var list []backend.Quantised
	for _, at := range reads {
		f := e.of[at]
		n := max(float64(f.Values), 1)
		largest := float64(f.Largest)
		if !(largest <= math.MaxFloat32) {
			largest = -1
		}
		list = append(list, backend.Quantised{
			Operator: names[at.site], Operand: operandNames[at.draw-drawInputOperand], Format: f.format, Values: f.Values,
			Saturated: float64(f.Saturated) / n, Flushed: float64(f.Flushed) / n, Subnormal: float64(f.Subnormal) / n,
			Largest: largest, Scale: float64(f.Scale), RelError: f.RelError(), Cosine: f.Cosine(),
		})
	}
	clear(e.of)
	return list
}

// Inspect makes the steps whose number is a multiple of every say what the formats of operands did. It changes no bit,
// and makes these steps several times slower. 0: none.
func (t *Trainer) Inspect(every int) {
	t.train.effects = nil
	if every > 0 {
		t.train.effects = &effects{every: uint32(every), of: map[read]*effect{}}
	}
	t.names = map[bert.Site]string{}
	for _, o := range bert.Operators(t.model.Config, t.model.Head) {
		t.names[o.Site] = o.Name
	}
}
