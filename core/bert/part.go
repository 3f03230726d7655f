package bert

import "fmt"

// A model is cut into units that can be placed apart. One [B·S, H] buffer of hidden states goes from each unit to
// the next, and one gradient of them comes back. Behind the attention of the last layer, in training, only the rows
// of the read tokens at their beginning are in use.
//
//	0              embeddings
//	1 + 2i         attention of layer i, with the layer norm behind it
//	2 + 2i         feed-forward of layer i, with the layer norm behind it
//	Units() - 1    pooler and heads

// unit is a kind of unit.
type unit int

const (
	embeddingsUnit unit = iota
	attentionUnit
	feedForwardUnit
	headsUnit
)

// of is the number of the unit in a model; layer is that of a unit in a layer.
func (u unit) of(c *Config, layer int) int {
	switch u {
	case embeddingsUnit:
		return 0
	case headsUnit:
		return c.Units() - 1
	}
	return 2*layer + int(u)
}

// Units is the number of units of the model.
func (c *Config) Units() int { return 2*c.NumHiddenLayers + 2 }

// UnitName says which part of the model a unit is.
func (c *Config) UnitName(u int) string {
	switch {
	case u == 0:
		return "embeddings"
	case u == c.Units()-1:
		return "heads"
	case u%2 == 1:
		return fmt.Sprintf("layer.%d.attention", u/2)
	}
	return fmt.Sprintf("layer.%d.feed_forward", u/2-1)
}

// UnitOf returns the unit that has a parameter, by its Hugging Face name, and -1 for a parameter of no model. The
// word embeddings belong to the embeddings, although they are the decoder's weight as well.
func (c *Config) UnitOf(parameter string) int {
	r, layer := find(parameter)
	if r == nil {
		return -1
	}
	return r.unit.of(c, layer)
}

// Recompute says what a part of a network keeps of a forward pass until its backward pass. What it does not keep is
// computed again, with the same bits: dropout and stochastic rounding draw from counters.
type Recompute string

// The ways.
const (
	RecomputeNone  Recompute = "none"  // all activations are kept
	RecomputeLayer Recompute = "layer" // the input of each layer
	RecomputeStage Recompute = "stage" // the input of the part
)

// Part says which units of a model a network has, and in which memory.
type Part struct {
	First, End int // units, End exclusive; both 0: the whole model
	// Recompute is RecomputeNone when it is empty. A part with the heads computes nothing again between them and the
	// layer before: its backward pass must follow on its forward pass at once.
	Recompute Recompute
	// Workspace is the memory for what is not kept. Parts of which one works at a time may share it; nil is a
	// workspace of the part's own.
	Workspace *Workspace
}

// Workspace is memory that is used again: for gradients inside a part, and activations that are not kept.
type Workspace struct {
	buffers map[workspaceKey][]float32
}

// workspaceKey tells buffers apart that are in use at the same time.
type workspaceKey struct{ group, index int }

func (w *Workspace) take(k workspaceKey, size int) []float32 {
	if w.buffers == nil {
		w.buffers = map[workspaceKey][]float32{}
	}
	if len(w.buffers[k]) < size {
		w.buffers[k] = make([]float32, size)
	}
	return w.buffers[k][:size]
}

// Work is the forward or backward pass of one unit.
type Work struct {
	Unit     int
	Backward bool
}

// ForwardWork is the forward pass of the network's units, in order.
func (n *Network) ForwardWork() []Work { return forwardWork(n.first, n.end) }

func forwardWork(first, end int) []Work {
	var w []Work
	for u := first; u < end; u++ {
		w = append(w, Work{Unit: u})
	}
	return w
}

// BackwardWork is the backward pass of the network's units, in order, with what is computed again.
func (n *Network) BackwardWork() []Work {
	var w []Work
	backward := func(first, end int) {
		for u := end - 1; u >= first; u-- {
			w = append(w, Work{Unit: u, Backward: true})
		}
	}
	hasHeads := n.hasHeads()
	switch {
	case n.recompute == RecomputeLayer:
		fresh := hasHeads // the last group's activations are still there
		for end := n.end; end > n.first; {
			first := max(n.first, n.group(end-1))
			if end < n.model.Config.Units() {
				if !fresh {
					w = append(w, forwardWork(first, end)...)
				}
				fresh = false
			}
			backward(first, end)
			end = first
		}
	case n.recompute == RecomputeStage && !hasHeads:
		w = forwardWork(n.first, n.end)
		backward(n.first, n.end)
	default:
		backward(n.first, n.end)
	}
	return w
}

// workspaceGroup tells which buffers in the workspace are in use together with those of a unit.
func (n *Network) workspaceGroup(u int) int {
	switch {
	case n.recompute != RecomputeLayer || u == n.model.Config.Units()-1:
		return u
	case u == 0:
		return embeddingsGroup
	}
	return u % 2 // one layer is in use at a time
}

// group is the first unit of the layer that a unit belongs to.
func (n *Network) group(u int) int {
	if u == 0 || u == n.model.Config.Units()-1 {
		return u
	}
	return (u-1)/2*2 + 1
}

// Input is the buffer for the hidden states that enter the part, as long as the limit of a micro-batch wants; nil
// when it begins with the embeddings.
func (n *Network) Input() []float32 { return n.in[:cap(n.in)] }

// Hidden is the buffer with the hidden states that leave the part [B·S, H]; nil when it ends with the heads.
func (n *Network) Hidden() []float32 { return n.out }

// HiddenGrad is the gradient of Hidden before a backward pass and of Input after it [B·S, H].
func (n *Network) HiddenGrad() []float32 { return n.dhidden }

// TieWords makes the embeddings or the decoder of the part use memory of their own for the gradient of the word
// embeddings [V, H]. Where both are apart, the decoder's backward pass sets it and that of the embeddings, later,
// adds to it.
func (n *Network) TieWords(grad []float32) {
	if n.embed != nil {
		n.embed.DWord = grad
	}
	if n.decoder != nil {
		n.decoder.DW = grad
	}
}
