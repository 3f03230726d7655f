package costmodel

import (
	"fmt"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/plugins/ipu/execution"
)

// flopsPerPass are the operations of an update that one pass over its elements does: codelets of poplibs fuse a
// product with a sum, and not every product has one. It is an assumption, with which the 16 operations of AdamW are
// 10 passes.
const flopsPerPass = 1.6

// updateProportion of a tile's memory may be taken by the operands of the optimizer's own products: no activations
// are alive then.
const updateProportion = 0.4

// update is what the optimizer keeps for a part of the model and does with it in a step.
type update struct {
	params   float64
	bytes    float64 // of state
	flops    float64 // on single elements
	products cost    // and the supersteps of kernels that a tensor has to itself
}

func (u update) plus(v update) update {
	return update{u.params + v.params, u.bytes + v.bytes, u.flops + v.flops, u.products.plus(v.products)}
}

// stated is what the optimizer states of a part of the model, with the products of each shape, and how often a step has
// them.
type stated struct {
	update
	products []counted
}

// counted is a product with the number of times that a step has it.
type counted struct {
	product
	count float64
}

func (s *stated) add(u update, products []optimizer.Product) {
	s.update = s.plus(u)
	for _, p := range products {
		of := product{p.Groups, p.M, p.K, p.N}
		i := slices.IndexFunc(s.products, func(c counted) bool { return c.product == of })
		if i < 0 {
			i, s.products = len(s.products), append(s.products, counted{product: of})
		}
		s.products[i].count += p.Count
	}
}

// parameters are those of the units of a program, with what the optimizer states of them. Programs that differ only in
// their cut have the same.
type parameters struct {
	units []stated
	words stated // the word embeddings alone
	// operators of the model with a single layer: all layers are alike.
	operators []bert.Operator
}

// readParameters adds up parameters by unit. A cost of other tensors is an error.
func readParameters(p *backend.Program, c *optimizer.Cost) (*parameters, error) {
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		return nil, err
	}
	if len(c.Tensors) > 0 {
		if err := c.Check(l); err != nil {
			return nil, err
		}
	}
	single := p.Model
	single.NumHiddenLayers = 1
	n := &parameters{units: make([]stated, p.Model.Units()), operators: bert.Operators(single, p.Head)}
	for i, t := range l.Tensors() {
		u := update{params: float64(t.Len())}
		var products []optimizer.Product
		if len(c.Tensors) > 0 {
			of := &c.Tensors[i]
			u.bytes, u.flops, u.products = c.StateBytes(i, t.Len()), of.Flops, cost{supersteps: of.Kernels}
			products = of.Products
		}
		n.units[p.Model.UnitOf(t.Name)].add(u, products)
		if i == 0 {
			n.words.add(u, products)
		}
	}
	return n, nil
}

// updates are the prices of what the optimizer states.
type updates struct {
	units []update
	words update
}

// priceUpdates prices the updates of all units.
func (m *model) priceUpdates(n *parameters) {
	q := *m
	q.format = formats["fp32"]
	q.vectorCycles = m.planner.VectorCycles * q.format.vectorSlow
	q.plan.Proportions = []float64{updateProportion}
	price := func(s *stated) update {
		u := s.update
		for _, p := range s.products {
			u.products = u.products.plus(q.planProduct(p.product).cost.times(p.count))
		}
		return u
	}
	m.updates = updates{units: make([]update, len(n.units)), words: price(&n.words)}
	for i := range n.units {
		m.updates.units[i] = price(&n.units[i])
	}
}

// stageUpdate is that of a stage; the decoder of pre-training has the table of the embeddings.
func (m *model) stageUpdate(s *stage) update {
	var u update
	for unit := s.First; unit < s.End; unit++ {
		u = u.plus(m.updates.units[unit])
	}
	return u
}

// deviceUpdate is that of all stages on a device.
func (m *model) deviceUpdate(stages []stage, device int) update {
	var u update
	for i := range stages {
		if stages[i].Device == device {
			u = u.plus(m.stageUpdate(&stages[i]))
		}
	}
	return u
}

// updateTimes are those of the IPUs that take longest: for the update, and for state that comes from Streaming Memory
// and goes back.
func (m *model) updateTimes(stages []stage) (update, streaming float64) {
	for d := range m.plan.Devices() {
		u := m.deviceUpdate(stages, d)
		update = max(update, m.updateSeconds(u))
		if m.plan.State == execution.OffChip {
			streaming = max(streaming, 2*u.bytes/m.shards()/m.system.Streaming.BytesPerSecond)
		}
	}
	return update, streaming
}

// updateSeconds is the time of an update that replicas share out.
func (m *model) updateSeconds(u update) float64 {
	if u.params == 0 {
		return 0
	}
	elements := m.vector(u.params/m.shards(), u.flops/u.params/flopsPerPass)
	return m.seconds(elements.plus(u.products.times(1 / m.shards())))
}

// asideBytes are those of parameters that are set aside while the second gradient of a step is computed.
func (m *model) asideBytes(weights float64) float64 {
	if m.probes {
		return weights
	}
	return 0
}

// withSecond adds the second gradient of a rule that probes to the parts of a step, behind the sum of the first
// gradient over the replicas.
func (m *model) withSecond(parts []backend.Phase, seconds float64) []backend.Phase {
	at := slices.IndexFunc(parts, func(p backend.Phase) bool { return p.Name == "optimizer" })
	if !m.probes {
		return parts
	}
	return slices.Insert(parts, at, backend.Phase{Name: "second_gradient", Seconds: seconds})
}

// updateAssumptions are what is taken for granted about the optimizer.
func updateAssumptions(c *optimizer.Cost, shards float64) []backend.Assumption {
	if len(c.Tensors) == 0 {
		return []backend.Assumption{{
			Setting: "optimizer", Modelled: "none", Reason: "none is given: neither its state nor its update is in these numbers",
		}}
	}
	var list []backend.Assumption
	if c.Assumed != "" {
		list = append(list, backend.Assumption{Setting: "optimizer", Reason: c.Assumed})
	}
	if shards > 1 && slices.ContainsFunc(c.Tensors, func(w optimizer.TensorCost) bool { return len(w.Products) > 0 }) {
		list = append(list, backend.Assumption{
			Setting: "optimizer", Reason: fmt.Sprintf("replicas share out the matrix products of the update evenly, over %g", shards),
		})
	}
	return list
}
