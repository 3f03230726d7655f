package bert

import (
	"fmt"
	"strings"

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
	add(wordEmbeddings, tensor.Embedding, c.VocabSize, H)
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

// wordEmbeddings is the tensor that the decoder of the masked LM head is tied to.
const wordEmbeddings = "bert.embeddings.word_embeddings.weight"

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

// Initialize fills params with the initial values of google-research/bert, as TruncatedNormal does.
func Initialize(c Config, l *tensor.Layout, params []float32, seed uint64) {
	TruncatedNormal.Initialize(c, l, params, seed)
}
