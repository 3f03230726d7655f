package bert

import "fmt"

// A model is cut into units that can be placed apart. Each unit hands one [T, H] buffer of hidden states to the next
// and gets their gradient back, with a row for each of the T tokens that are computed (see tokens). In training, after
// the attention of the last layer, only its first rows are in use: those of the read tokens.
//
//	0              embeddings
//	1 + 2i         attention of layer i and the layer norm after it
//	2 + 2i         feed-forward of layer i and the layer norm after it
//	Units() - 1    pooler and heads

// unit is a kind of unit.
type unit int

const (
	embeddingsUnit unit = iota
	attentionUnit
	feedForwardUnit
	headsUnit
)

// of returns the number of a unit; layer counts only where the unit is in a layer.
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

// UnitOf returns the unit that a parameter belongs to, by its Hugging Face name, and -1 for a name that no model
// has. The word embeddings belong to the embeddings, although they are the decoder's weight as well.
func (c *Config) UnitOf(parameter string) int {
	r, u, layer := find(parameter)
	if r == nil {
		return -1
	}
	return u.of(c, layer)
}

// Recompute says which activations a part of a network keeps from the forward to the backward pass. It computes the
// others again, with the same bits, since dropout and stochastic rounding draw from counters.
type Recompute string

// What is kept.
const (
	RecomputeNone  Recompute = "none"  // all activations are kept
	RecomputeLayer Recompute = "layer" // the input of each layer
	RecomputeStage Recompute = "stage" // the input of the part
)

// Part says which units of a model a network has, and in which memory.
type Part struct {
	First, End int // units, End exclusive; both 0: the whole model
	// Recompute is RecomputeNone when it is empty. A part with the heads does not compute again what its forward pass
	// left in the workspace, the last layer or, with RecomputeStage, everything: its backward pass must directly
	// follow its forward pass.
	Recompute Recompute
	// Workspace is the memory for activations that are not kept. Parts that never work at the same time may share one;
	// nil gives the part its own.
	Workspace *Workspace
}

// Workspace is memory for values that are overwritten during a pass: gradients inside a part, and activations that
// are not kept.
type Workspace struct {
	buffers map[workspaceKey][]float32
}

// workspaceKey names a buffer. Buffers that are in use at the same time have different keys.
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

// BackwardWork is the backward pass of the network's units, in order, including the forward passes that are run again.
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

// workspaceGroup is the group of a unit's buffers in the workspace. Units in one group overwrite each other's.
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

// Input is the buffer for the hidden states that enter the part, with room for the largest micro-batch; nil when
// the part begins with the embeddings.
func (n *Network) Input() []float32 { return n.in[:cap(n.in)] }

// Hidden is the buffer with the hidden states that leave the part [T, H]; nil when it ends with the heads.
func (n *Network) Hidden() []float32 { return n.out }

// HiddenGrad is the gradient of Hidden before a backward pass and of Input after it [T, H].
func (n *Network) HiddenGrad() []float32 { return n.dhidden }

// TieWords makes the part's embeddings or decoder use other memory for the gradient of the word embeddings [V, H]:
// the decoder's backward pass sets it, and that of the embeddings, which may be in another part, adds to it later.
func (n *Network) TieWords(grad []float32) {
	if n.embed != nil {
		n.embed.DWord = grad
	}
	if n.decoder != nil {
		n.decoder.DW = grad
	}
}
