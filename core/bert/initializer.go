package bert

import (
	"math"
	"math/rand/v2"

	"harness.invalid/core/random"
	"harness.invalid/core/tensor"
)

// Initializer names how a published system draws a model's initial values. Unless stated otherwise, biases are 0
// and the scales of layer norms 1.
type Initializer string

// The initializers. The zero value is TruncatedNormal.
const (
	// TruncatedNormal draws weights and embeddings from a normal distribution with standard deviation
	// initializer_range, and draws again what lies beyond two standard deviations. Source: google-research/bert,
	// tf.truncated_normal_initializer; graphcore/examples, nlp/bert/pytorch/modeling.py.
	TruncatedNormal Initializer = "truncated_normal"
	// Normal does not truncate, and sets the word embedding of [PAD], entry 0, to zero. Source:
	// huggingface/transformers, modeling_bert.py, _init_weights.
	Normal Initializer = "normal"
	// NVIDIA does not truncate either. Its linear layers with an activation (the first of the feed-forward layers, the
	// pooler, the transform of the masked LM head) begin as PyTorch's do: weights and biases uniform within
	// 1/sqrt(inputs) of 0. Source: NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT, modeling.py,
	// init_bert_weights and LinearActivation.reset_parameters.
	NVIDIA Initializer = "nvidia"
)

// Initializers returns the names of all initializers.
func Initializers() []string {
	return []string{string(TruncatedNormal), string(Normal), string(NVIDIA)}
}

// Initialize fills params with initial values. Each tensor has its own random stream, keyed by its name, so the
// encoder starts with the same values under every head.
func (i Initializer) Initialize(c Config, l *tensor.Layout, params []float32, seed uint64) {
	clear(params[:l.Len()])
	for _, t := range l.Tensors() {
		i.Tensor(c, t, t.Of(params), seed)
	}
}

// Tensor fills one tensor as Initialize does.
func (i Initializer) Tensor(c Config, t tensor.Tensor, values []float32, seed uint64) {
	s := random.New(seed, random.Init)
	s.Site = nameHash(t.Name)
	r := rand.New(&random.Source{Stream: s})
	switch {
	case t.Kind == tensor.NormScale:
		for j := range values {
			values[j] = 1
		}
	case i == NVIDIA && linearActivation(t.Name):
		bound := 1 / math.Sqrt(float64(c.HiddenSize)) // the inputs of all three
		for j := range values {
			values[j] = float32((2*r.Float64() - 1) * bound)
		}
	case t.Kind != tensor.Weight && t.Kind != tensor.Embedding:
		clear(values)
	default:
		normal(r, values, c.InitializerRange, i != Normal && i != NVIDIA)
		if i == Normal && t.Name == wordEmbeddings {
			clear(values[:c.HiddenSize])
		}
	}
}

// linearActivation reports whether a parameter belongs to a dense layer with an activation, NVIDIA's LinearActivation.
func linearActivation(name string) bool {
	r, _, _ := find(name)
	return r != nil && r.activation != NoActivation
}

func normal(r *rand.Rand, values []float32, sd float64, truncated bool) {
	for i := range values {
		x := r.NormFloat64()
		for truncated && math.Abs(x) > 2 {
			x = r.NormFloat64()
		}
		values[i] = float32(x * sd)
	}
}

// nameHash is 32-bit FNV-1a.
func nameHash(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}
