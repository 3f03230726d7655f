package bert

import "fmt"

// Network is a Model, or a part of one, bound to memory: parameters, gradients, and the activations of one
// micro-batch. It allocates its memory once and uses it again for every micro-batch.
//
// Its passes come in units (see Config.Units), which a Device runs one by one: ForwardWork and BackwardWork give
// their order, Run runs one. Forward and Backward run them all. A unit may run forward again before its backward
// pass (recomputation): dropout draws from counters and gives the same masks.
type Network struct {
	model      *Model
	limit      Shape // the largest micro-batch that fits the buffers
	first, end int   // units
	recompute  Recompute
	workspace  *Workspace
	grads      []float32

	units   []unitNodes // of the part
	buffers []*buffer
	key     workspaceKey // of the next buffer in the workspace
	in, out []float32    // [T, H]: hidden states that enter and leave the part
	dhidden []float32    // [T, H]: their gradient, which goes down from unit to unit

	embed   *Embed             // nil where the part has no embeddings
	decoder *Linear            // nil where the part has no decoder
	outputs map[string]*buffer // by name
	// What the losses are computed from; those that the task or the part lacks are nil.
	maskedLogits, labelLogits, span *buffer
	start, finish                   []float32 // [B, S]: the columns of span
	rightChoices                    []int32   // [B/choices]: MultipleChoice
	tokenLabels                     []int32   // [T]: TokenClassification; 0 where there is none
	tokenWeights                    []float32 // [T]: 0 where there is no label

	batch   *Batch
	current Shape
	tokens  tokens
	read    readTokens
}

// unitNodes are the operators of a unit, in the order of each pass.
type unitNodes struct {
	forward, backward []node
}

// buffer holds a result, or a gradient, and shows its rows for the current micro-batch in all of its views.
type buffer struct {
	rows   Rows
	width  int
	memory []float32 // for the largest micro-batch
	values []float32 // the part of memory that the current micro-batch uses
	views  []*[]float32
	padded []float32 // see Network.spread; made when it is needed
}

func (b *buffer) show(views ...*[]float32) { b.views = append(b.views, views...) }

// NewNetwork returns a network for micro-batches of at most the extents of limit. grads is nil for a network that
// only predicts.
func NewNetwork(m *Model, params, grads []float32, limit Shape) (*Network, error) {
	return NewPart(m, params, grads, limit, Part{})
}

// NewPart returns the network of a part of the model. params and grads are those of the whole model; the part
// touches only its own.
func NewPart(m *Model, params, grads []float32, limit Shape, p Part) (*Network, error) {
	if err := m.checkSections(params, grads); err != nil {
		return nil, err
	}
	if limit.Size < 1 || limit.Length < 1 || limit.Length > m.Config.MaxPositionEmbeddings {
		return nil, fmt.Errorf("bert: micro-batch of %d sequences of %d tokens, want at least 1 and 1 to %d",
			limit.Size, limit.Length, m.Config.MaxPositionEmbeddings)
	}
	limit.Sequences = max(1, limit.Sequences)
	limit.readTokens = limit.rows(paddedTokens)
	if m.Head.Task != Pretraining {
		limit.Predictions, limit.Sequences = 0, 1
	} else if limit.Predictions < 1 || limit.Predictions > limit.Length {
		return nil, fmt.Errorf("bert: %d predictions a sequence of %d tokens, want 1 to %d", limit.Predictions, limit.Length, limit.Length)
	}
	units := m.Config.Units()
	if p.First == 0 && p.End == 0 {
		p.End = units
	}
	if p.First < 0 || p.End <= p.First || p.End > units {
		return nil, fmt.Errorf("bert: part of units %d to %d, want at least one of %d", p.First, p.End, units)
	}
	n := &Network{model: m, limit: limit, first: p.First, end: p.End, recompute: p.Recompute, workspace: p.Workspace, grads: grads,
		outputs: map[string]*buffer{}}
	if n.workspace == nil {
		n.workspace = &Workspace{}
	}
	n.tokens = newTokens(limit)
	n.read = newReadTokens(&n.tokens, limit.rows(paddedTokens))
	n.build(binder{layout: m.Layout, params: params, grads: grads})
	n.shape(limit)
	return n, nil
}

// hasHeads reports whether the part ends with the heads.
func (n *Network) hasHeads() bool { return n.end == n.model.Config.Units() }

// allocate makes a buffer that keeps its values from the forward pass to the backward pass.
func (n *Network) allocate(r Rows, width int, views ...*[]float32) *buffer {
	return n.over(make([]float32, n.limit.rows(r)*width), r, width, views...)
}

// inside makes a buffer inside a unit, which keeps its values unless they are recomputed.
func (n *Network) inside(r Rows, width int, views ...*[]float32) *buffer {
	if n.recompute == RecomputeNone || n.recompute == "" {
		return n.allocate(r, width, views...)
	}
	return n.scratch(r, width, views...)
}

// scratch makes a buffer in the workspace.
func (n *Network) scratch(r Rows, width int, views ...*[]float32) *buffer {
	memory := n.workspace.take(n.key, n.limit.rows(r)*width)
	n.key.index++
	return n.over(memory, r, width, views...)
}

// over makes a buffer over memory.
func (n *Network) over(memory []float32, r Rows, width int, views ...*[]float32) *buffer {
	b := &buffer{rows: r, width: width, memory: memory, views: views}
	n.buffers = append(n.buffers, b)
	return b
}

// shape makes all buffers show the rows of a micro-batch.
func (n *Network) shape(s Shape) {
	if s == n.current {
		return
	}
	n.current = s
	for _, b := range n.buffers {
		b.values = b.memory[:s.rows(b.rows)*b.width]
		for _, v := range b.views {
			*v = b.values
		}
	}
}
