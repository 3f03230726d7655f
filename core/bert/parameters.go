package bert

import (
	"strings"

	"harness.invalid/core/tensor"
)

// Parameters returns the parameters of the model with a head, in the order of its operators and with Hugging Face's
// names and shapes: a linear layer's weight is [out, in]. The decoder of the masked LM head is tied to the word
// embeddings and has no tensor of its own.
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
	for _, o := range Operators(c, h) {
		switch o.Kind {
		case EmbedKind:
			add(wordEmbeddings, tensor.Embedding, c.VocabSize, o.Width)
			add(positionEmbeddings, tensor.Embedding, c.MaxPositionEmbeddings, o.Width)
			add(typeEmbeddings, tensor.Embedding, c.TypeVocabSize, o.Width)
			add(o.Weight, tensor.NormScale, o.Width)
			add(o.Bias, tensor.NormBias, o.Width)
		case LinearKind:
			if o.Weight != wordEmbeddings {
				add(o.Weight, tensor.Weight, o.Width, o.In)
			}
			add(o.Bias, tensor.Bias, o.Width)
		case NormKind:
			add(o.Weight, tensor.NormScale, o.Width)
			add(o.Bias, tensor.NormBias, o.Width)
		}
	}
	return tensor.NewLayout(ts...)
}

// KindOf derives the kind of a parameter from its Hugging Face name, for files that store only names.
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
