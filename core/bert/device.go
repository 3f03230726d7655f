package bert

// Device does the arithmetic of the model. The model decides what is computed, from which buffers into which; a
// Device decides how: in which number formats, in which order, where. Each operator has a forward and a backward
// method. Both get the same description, so a Device may recompute what it did not keep.
//
// All buffers are row-major float32. A Device for a narrower format keeps only values of that format in them. Calls
// for different micro-batches may be concurrent: a Device keeps no state of a pass.
type Device interface {
	// Embed: Y = dropout(norm(Word[id] + Position[position] + Type[type])).
	Embed(p *Pass, op *Embed)
	// EmbedBackward adds to op.DWord, which may hold the gradient of a tied decoder, and sets the other gradients. It
	// overwrites dy.
	EmbedBackward(p *Pass, op *Embed, dy []float32)

	// Linear: Y = dropout(act(X·Wᵀ + B)), or Y = Residual + dropout(X·Wᵀ + B).
	Linear(p *Pass, op *Linear)
	// LinearBackward sets op.DW and op.DB. Unless dx is nil, it sets dx to the gradient of X, or adds the gradient to
	// dx when accumulate is true. The gradient of op.Residual is dy itself: dy keeps its values where a residual was
	// added, and is overwritten otherwise.
	LinearBackward(p *Pass, op *Linear, dy, dx []float32, accumulate bool)

	// Norm: Y = dropout(layer normalisation of X).
	Norm(p *Pass, op *Norm)
	// NormBackward sets op.DGamma, op.DBeta and dx; dx may be dy, which is overwritten where there is dropout.
	NormBackward(p *Pass, op *Norm, dy, dx []float32)

	// Attention: Context = dropout(softmax(Q·Kᵀ/sqrt(d) + mask))·V for each sequence and head.
	Attention(p *Pass, op *Attention)
	// AttentionBackward sets dq, dk and dv.
	AttentionBackward(p *Pass, op *Attention, dcontext, dq, dk, dv []float32)

	// Gather: Y[i] = X[Rows[i]].
	Gather(p *Pass, op *Gather)
	// GatherBackward adds dy[i] to dx[Rows[i]].
	GatherBackward(p *Pass, op *Gather, dy, dx []float32)
	// Scatter sets dx[Rows[i]] to dy[i], using the first i where rows are equal, and all other rows to 0.
	Scatter(p *Pass, op *Gather, dy, dx []float32)

	// CrossEntropy returns the weighted loss of softmax(Logits). When p.Train is set, it replaces Logits by the
	// gradient of Coefficient·loss, else it leaves them as they are.
	CrossEntropy(p *Pass, op *CrossEntropy) Loss
	// SquaredError returns the sum of (Y - Target)² and, like CrossEntropy, replaces Y by the gradient.
	SquaredError(p *Pass, op *SquaredError) Loss
}

// Pass holds what all operators share in one forward and backward pass over a micro-batch.
type Pass struct {
	Seed    uint64 // of the run; random streams are keyed by (Seed, Step, sample, Site, element)
	Step    uint32
	Sample  int  // index in the global batch of the micro-batch's first sequence
	Size    int  // sequences, B; the rows of every buffer are B times the rows of one sequence
	Length  int  // tokens of a sequence, S, padding included
	Replica int  // the one that computes the pass
	Train   bool // dropout is on and gradients are wanted
	Wanted  Wanted
}

// Wanted says which outputs an evaluation needs besides losses. Tokens that only other outputs depend on are not
// computed.
type Wanted uint8

// What is wanted.
const (
	WantAll   Wanted = iota // all outputs
	WantHeads               // those of the heads, not hidden states
)

// Op names an operator of the model. The numbers key random streams: append, never renumber.
type Op uint8

// The operators, with their published names where there is one, and the places outside the model that draw random bits.
const (
	OpEmbeddings Op = iota + 1
	OpQuery
	OpKey
	OpValue
	OpAttention
	OpAttentionOutput
	OpAttentionNorm
	OpIntermediate
	OpOutput
	OpOutputNorm
	OpPooler
	OpTransform     // masked LM head: dense + activation
	OpTransformNorm // masked LM head: layer norm
	OpDecoder       // masked LM head: tied projection to the vocabulary
	OpNextSentence
	OpSpan // question answering: qa_outputs
	OpClassifier
	OpLoss
	OpGather
	OpAccumulate // sum of the gradients of micro-batches
	OpReduce     // sum of the gradients of replicas
	OpUpdate     // parameters as they are stored
)

// Site is a place in the model.
type Site struct {
	Layer int // 0, 1, ... in the encoder; -1 outside of it
	Op    Op
}

// Stream numbers the draws of a site for random.Stream.Site: layer, operator, kind of draw (0 to 63: forward,
// backward, weight gradient ...) and attention head (0 to 1023) take 11, 5, 6 and 10 bits.
func (s Site) Stream(draw, head uint32) uint32 {
	return uint32(s.Layer+1)<<21 | uint32(s.Op)<<16 | (draw&63)<<10 | head&1023
}

// Embed is the sum of the embeddings, followed by layer norm and dropout. Its rows are those of Norm, T.
type Embed struct {
	Site                    Site
	IDs, Types              []int32   // [B·S]
	Positions               []int32   // [B·S]; empty: the token's place in its row
	Word, Position, Type    []float32 // [V, H], [P, H], [types, H]
	Norm                    Norm      // Norm.X is the sum of the three; Norm.Y is Y before dropout and may be Y itself
	Dropout                 float64
	Y                       []float32 // [T, H]
	DWord, DPosition, DType []float32
}

// NoActivation is the identity, Tanh the pooler's. Hidden activations are GELU and GELUNew.
const (
	NoActivation Activation = ""
	Tanh         Activation = "tanh"
)

// Linear is a dense layer with the activation, dropout and residual sum that follow it.
type Linear struct {
	Site          Site
	Rows, In, Out int
	Tokens        []int32   // [Rows]: the token of each row, see Norm
	X             []float32 // [Rows, In], and rows that are not read
	W             []float32 // [Out, In]
	B             []float32 // [Out]
	Y             []float32 // [Rows, Out]
	DW, DB        []float32 // gradients of W and B; overwritten by the backward pass

	Activation Activation
	Pre        []float32 // [Rows, Out]: X·Wᵀ + B, kept for the backward pass; nil without an activation

	Dropout  float64   // after the activation
	Residual []float32 // [Rows, Out], added after dropout; nil: none. Never together with an activation.
}

// Norm is a layer normalisation over the last axis: Y = (X - μ)/sqrt(σ² + Eps)·Gamma + Beta.
type Norm struct {
	Site        Site
	Rows, Width int
	// Tokens are the tokens that the rows stand for, as rows of the batch [B·S]. Empty: as many rows for each sequence, in
	// order.
	Tokens        []int32 // [Rows]
	Eps           float64
	Dropout       float64   // of the last layer before a classifier of tokens; that of the embeddings is Embed's
	X, Y          []float32 // [Rows, Width]
	Gamma, Beta   []float32 // [Width]
	Mean, RStd    []float32 // [Rows]: kept for the backward pass
	DGamma, DBeta []float32
}

// Attention is the scaled dot product of all heads. Head h is the columns h·d to (h+1)·d of Q, K, V and Context; d
// = Width/Heads.
type Attention struct {
	Site         Site
	Size, Length int       // B, S
	Heads, Width int       // A, H
	Q            []float32 // [queries, H]
	Queries      []int32   // [queries]: the tokens of the rows of Q, as rows of the batch; empty: all tokens, in order
	Read         bool      // Q has as many rows for each sequence, for tokens in any order
	K, V         []float32 // [keys, H]
	Keys         []int32   // [keys]: the tokens of the rows of K and V; empty: all tokens, in order
	// Spans are the rows of each sequence [B]: those of its keys in K and V and, unless Read, in Q; and those of the
	// queries in Q that are no keys. Empty: S keys for each sequence, and as many queries.
	Spans     [][2]Span
	Mask      []int32   // [B, S]: 0 for keys that no query sees
	Packed    bool      // Mask numbers the sequences of a row, and a query sees only keys with its own number
	MaskValue float64   // added to the scores of keys that are not seen
	Dropout   float64   // of the probabilities
	Context   []float32 // [queries, H]
}

// Rows returns the rows of a sequence: those of its keys in K and V, and the two ranges of its queries in Q.
func (a *Attention) Rows(sequence int) (keys Span, queries [2]Span) {
	keys = Span{sequence * a.Length, (sequence + 1) * a.Length}
	queries[0] = keys
	if len(a.Spans) > 0 {
		queries = a.Spans[sequence]
		keys = queries[0]
	}
	if a.Read {
		n := len(a.Queries) / a.Size
		queries = [2]Span{{sequence * n, (sequence + 1) * n}, {}}
	}
	return keys, queries
}

// Gather picks rows.
type Gather struct {
	Site  Site
	Width int
	Rows  []int32   // rows of X, as many for each sequence of the micro-batch; no row belongs to two sequences
	X, Y  []float32 // [.., Width], [len(Rows), Width]
}

// CrossEntropy is the loss of a softmax over Classes.
type CrossEntropy struct {
	Site          Site
	Rows, Classes int
	Tokens        []int32   // [Rows]: the token of each row, see Norm
	Logits        []float32 // [Rows, Classes]
	Labels        []int32   // [Rows]
	Weights       []float32 // [Rows]; nil: all 1
	Coefficient   float64   // factor of the loss whose gradient is computed: loss scale over the weight of the global batch
}

// SquaredError is the loss of a regression.
type SquaredError struct {
	Site        Site
	Y           []float32 // [Rows]
	Targets     []float32 // [Rows]
	Coefficient float64
}
