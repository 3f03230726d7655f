package bert

import "slices"

// gradients assigns memory to the gradients of a part's results while its nodes are connected in the order of the
// backward pass. The gradient of hidden states is always in Network.dhidden, from unit to unit. All other gradients
// are in memory that the units share, since only one works at a time.
type gradients struct {
	n       *Network
	results map[*buffer]*buffer // gradient by result
	hidden  *buffer             // the hidden states that enter the unit
	dhidden []float32           // memory
	waiting []room              // buffers without memory
	used    int                 // floats of the shared memory, by the unit
}

// room is a buffer that will get its memory at an offset of what the units share.
type room struct {
	*buffer
	offset int
}

// of returns the gradient of a result, with memory of its own if it has none yet.
func (g *gradients) of(result *buffer) *buffer {
	grad := g.results[result]
	switch {
	case grad != nil:
	case result == g.hidden:
		grad = g.n.over(g.dhidden, result.rows, result.width)
	default:
		grad = g.room(result)
	}
	g.results[result] = grad
	return grad
}

// begun reports whether a part of a result's gradient is computed already.
func (g *gradients) begun(result *buffer) bool { return g.results[result] != nil }

// set makes a result's gradient lie where that of another does.
func (g *gradients) set(result, grad *buffer) { g.results[result] = grad }

// room returns a buffer as large as another in the memory that the units share.
func (g *gradients) room(as *buffer) *buffer {
	b := g.n.over(nil, as.rows, as.width)
	g.waiting = append(g.waiting, room{b, g.used})
	g.used += g.n.limit.rows(as.rows) * as.width
	return b
}

// connectGradients gives all nodes memory for their gradients and sorts them for the backward pass. last are the
// hidden states that leave the part, nil when it ends with the heads; entering are those that enter each unit, nil
// for the embeddings.
func (n *Network) connectGradients(last *buffer, entering []*buffer) {
	n.key = workspaceKey{group: gradientsGroup}
	hidden := n.scratch(AllTokens, n.model.Config.HiddenSize, &n.dhidden)
	g := &gradients{n: n, results: map[*buffer]*buffer{}, dhidden: hidden.memory}
	if last != nil {
		g.set(last, n.over(hidden.memory, last.rows, last.width))
	}
	shared := 0
	for i := len(n.units) - 1; i >= 0; i-- {
		u := &n.units[i]
		u.backward = backwardOrder(u.forward)
		g.hidden, g.used = entering[i], 0
		for _, o := range u.backward {
			if result := o.result(); !g.begun(result) {
				g.set(result, result) // only the loss reads it, and leaves the gradient in its place
			}
			o.connect(g)
		}
		shared = max(shared, g.used)
	}
	memory := n.workspace.take(n.key, shared)
	for _, r := range g.waiting {
		r.memory = memory[r.offset:][:n.limit.rows(r.rows)*r.width]
	}
}

// backwardOrder is the order of a unit's backward pass: of the operators whose readers are all done, it takes the
// first in the forward pass next. Where several operators read one result, their parts of its gradient are added in
// this order.
func backwardOrder(forward []node) []node {
	left := slices.Clone(forward)
	var order []node
	for len(left) > 0 {
		next := slices.IndexFunc(left, func(o node) bool {
			return !slices.ContainsFunc(left, func(reader node) bool { return slices.Contains(reader.reads(), o.result()) })
		})
		order = append(order, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return order
}
