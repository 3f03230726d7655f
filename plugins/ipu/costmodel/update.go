package costmodel

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
)

// flopsPerPass are the operations of an update that one pass over its elements does: codelets of poplibs fuse a product with a sum, and not every product
// has one. It is an assumption, with which the 16 operations of AdamW are 10 passes.
const flopsPerPass = 1.6

// updateProportion of a tile's memory may be taken by the operands of the optimizer's own products: no activations are alive then.
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

func (u update) times(f float64) update {
	return update{u.params * f, u.bytes * f, u.flops * f, u.products.times(f)}
}

// The parts of the model whose updates make up those of stages: both halves of a layer, the embeddings and among them the table of words, the heads.
const (
	attentionUpdate = iota
	feedForwardUpdate
	embeddingsUpdate
	wordsUpdate
	headUpdate
	updateParts
)

// stated is what the optimizer states of a part, with the products of each shape, and how often a step has them.
type stated struct {
	update
	products []counted
}

// counted is a product with the number of times that a step has it.
type counted struct {
	product
	count float64
}

func (s *stated) add(u update, products []optimizer.Product, share float64) {
	s.update = s.plus(u.times(share))
	for _, p := range products {
		of := product{p.Groups, p.M, p.K, p.N}
		i := slices.IndexFunc(s.products, func(c counted) bool { return c.product == of })
		if i < 0 {
			i, s.products = len(s.products), append(s.products, counted{product: of})
		}
		s.products[i].count += p.Count * share
	}
}

// statement adds up what the optimizer states tensor by tensor. Programs that differ in their cut alone have the same.
func (m *model) statement(c *optimizer.Cost) (*[updateParts]stated, error) {
	key := &c.Tensors[0]
	if known := m.planner.stated[key]; known != nil {
		return known, nil
	}
	l, err := bert.Parameters(m.program.Model, m.program.Head)
	if err != nil {
		return nil, err
	}
	if err := c.Check(l); err != nil {
		return nil, err
	}
	parts := new([updateParts]stated)
	perLayer := 1 / float64(m.program.Model.NumHiddenLayers)
	for i, t := range l.Tensors() {
		n, of := t.Len(), &c.Tensors[i]
		u := update{params: float64(n), bytes: c.StateBytes(i, n), flops: of.Flops, products: cost{supersteps: of.Kernels}}
		switch layer := strings.HasPrefix(t.Name, "bert.encoder.layer."); {
		case layer && strings.Contains(t.Name, ".attention."):
			parts[attentionUpdate].add(u, of.Products, perLayer)
		case layer:
			parts[feedForwardUpdate].add(u, of.Products, perLayer)
		case strings.HasPrefix(t.Name, "bert.embeddings."):
			parts[embeddingsUpdate].add(u, of.Products, 1)
			if i == 0 {
				parts[wordsUpdate].add(u, of.Products, 1)
			}
		default:
			parts[headUpdate].add(u, of.Products, 1)
		}
	}
	m.planner.stated[key] = parts
	return parts, nil
}

// readUpdates prices what the optimizer states.
func (m *model) readUpdates(c *optimizer.Cost) error {
	if len(c.Tensors) == 0 {
		return nil
	}
	parts, err := m.statement(c)
	if err != nil {
		return err
	}
	q := *m
	q.format = formats["fp32"]
	q.vectorCycles = m.planner.VectorCycles * q.format.vectorSlow
	q.settings.Proportions = []float64{updateProportion}
	for i := range parts {
		m.updates[i] = parts[i].update
		for _, p := range parts[i].products {
			m.updates[i].products = m.updates[i].products.plus(q.planProduct(p.product).cost.times(p.count))
		}
	}
	return nil
}

// stageUpdate is that of a stage; the decoder of pre-training has the table of the embeddings.
func (m *model) stageUpdate(s *stage) update {
	u := m.updates[attentionUpdate].times(float64(s.attention)).plus(m.updates[feedForwardUpdate].times(float64(s.feedForward)))
	if s.embeddings {
		u = u.plus(m.updates[embeddingsUpdate])
	}
	if s.head {
		u = u.plus(m.updates[headUpdate])
	}
	return u
}

// deviceUpdate is that of all stages on a device.
func (m *model) deviceUpdate(stages []stage, device int) update {
	var u update
	for i := range stages {
		if stages[i].device == device {
			u = u.plus(m.stageUpdate(&stages[i]))
		}
	}
	return u
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

// withSecond adds the second gradient of a rule that probes to the parts of a step, behind the sum of the first gradient over the replicas.
func (m *model) withSecond(parts []backend.Phase, seconds float64) []backend.Phase {
	at := slices.IndexFunc(parts, func(p backend.Phase) bool { return p.Name == "optimizer" })
	if !m.probes {
		return parts
	}
	return slices.Insert(parts, at, backend.Phase{Name: "second_gradient", Seconds: seconds})
}

// updateNotes say what is taken for granted about the optimizer.
func updateNotes(c *optimizer.Cost, shards float64) []string {
	if len(c.Tensors) == 0 {
		return []string{"no optimizer is given: neither its state nor its update is in these numbers"}
	}
	var notes []string
	if c.Assumed != "" {
		notes = append(notes, c.Assumed)
	}
	if shards > 1 && slices.ContainsFunc(c.Tensors, func(w optimizer.TensorCost) bool { return len(w.Products) > 0 }) {
		notes = append(notes, fmt.Sprintf("the matrix products of the update are shared out evenly over %g replicas", shards))
	}
	return notes
}
