package bert

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"harness.invalid/core/random"
	"harness.invalid/core/tensor"
)

// Parameters returns the parameters of the model with a head, in the model's order and with Hugging Face's names and shapes: a linear
// layer's weight is [out, in]. The decoder of the masked LM head is tied to the word embeddings and has no tensor of its own.
func Parameters(c Config, h Head) (*tensor.Layout, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := h.Validate(); err != nil {
		return nil, err
	}
	var ts []tensor.Tensor
	add := func(name string, kind tensor.Kind, shape ...int) {
		ts = append(ts, tensor.Tensor{Name: name, Shape: shape, Kind: kind})
	}
	linear := func(name string, out, in int) {
		add(name+".weight", tensor.Weight, out, in)
		add(name+".bias", tensor.Bias, out)
	}
	norm := func(name string) {
		add(name+".weight", tensor.NormScale, c.HiddenSize)
		add(name+".bias", tensor.NormBias, c.HiddenSize)
	}
	H := c.HiddenSize
	add("bert.embeddings.word_embeddings.weight", tensor.Embedding, c.VocabSize, H)
	add("bert.embeddings.position_embeddings.weight", tensor.Embedding, c.MaxPositionEmbeddings, H)
	add("bert.embeddings.token_type_embeddings.weight", tensor.Embedding, c.TypeVocabSize, H)
	norm("bert.embeddings.LayerNorm")
	for i := range c.NumHiddenLayers {
		layer := fmt.Sprintf("bert.encoder.layer.%d.", i)
		linear(layer+"attention.self.query", H, H)
		linear(layer+"attention.self.key", H, H)
		linear(layer+"attention.self.value", H, H)
		linear(layer+"attention.output.dense", H, H)
		norm(layer + "attention.output.LayerNorm")
		linear(layer+"intermediate.dense", c.IntermediateSize, H)
		linear(layer+"output.dense", H, c.IntermediateSize)
		norm(layer + "output.LayerNorm")
	}
	switch h.Task {
	case Pretraining:
		linear("bert.pooler.dense", H, H)
		linear("cls.predictions.transform.dense", H, H)
		norm("cls.predictions.transform.LayerNorm")
		add("cls.predictions.bias", tensor.Bias, c.VocabSize)
		linear("cls.seq_relationship", 2, H)
	case QuestionAnswering:
		linear("qa_outputs", 2, H)
	case Classification:
		linear("bert.pooler.dense", H, H)
		linear("classifier", h.Labels, H)
	case MultipleChoice:
		linear("bert.pooler.dense", H, H)
		linear("classifier", 1, H)
	}
	return tensor.NewLayout(ts...)
}

// KindOf tells the kind of a parameter from its Hugging Face name, for files that store names only.
func KindOf(name string) tensor.Kind {
	norm := strings.Contains(name, "LayerNorm") || strings.Contains(name, "layer_norm")
	switch {
	case norm && strings.HasSuffix(name, ".bias"):
		return tensor.NormBias
	case norm:
		return tensor.NormScale
	case strings.HasSuffix(name, "bias"):
		return tensor.Bias
	case strings.Contains(name, "embeddings"):
		return tensor.Embedding
	}
	return tensor.Weight
}

// Initialize fills params with the initial values of google-research/bert: weights and embeddings from a normal distribution with standard
// deviation initializer_range, redrawn beyond two of them (tf.truncated_normal_initializer); biases 0; layer norm scale 1, bias 0.
//
// Each tensor draws from a stream of its own, keyed by its name, so that the encoder starts alike under every head.
func Initialize(c Config, l *tensor.Layout, params []float32, seed uint64) {
	clear(params[:l.Len()])
	for _, t := range l.Tensors() {
		InitializeTensor(c, t, t.Of(params), seed)
	}
}

// InitializeTensor fills the values of one tensor as Initialize does.
func InitializeTensor(c Config, t tensor.Tensor, values []float32, seed uint64) {
	switch t.Kind {
	case tensor.NormScale:
		for i := range values {
			values[i] = 1
		}
	case tensor.Weight, tensor.Embedding:
		s := random.New(seed, random.Init)
		s.Site = nameHash(t.Name)
		truncatedNormal(rand.New(&random.Source{Stream: s}), values, c.InitializerRange)
	default:
		clear(values)
	}
}

func truncatedNormal(r *rand.Rand, values []float32, sd float64) {
	for i := range values {
		x := r.NormFloat64()
		for math.Abs(x) > 2 {
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
