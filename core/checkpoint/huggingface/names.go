package huggingface

import (
	"regexp"
	"strings"

	"harness.invalid/core/checkpoint/weights"
)

// buffers are not parameters, but older versions of transformers store them.
var buffers = []string{"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"}

// tied are the second names of parameters that BERT uses twice. A file has either or both.
var tied = map[string]string{
	"bert.embeddings.word_embeddings.weight": "cls.predictions.decoder.weight",
	"cls.predictions.bias":                   "cls.predictions.decoder.bias",
}

// wrappers are the prefixes that training checkpoints put before parameters ("model" in NVIDIA's), and the one that
// torch.nn.DataParallel adds.
var wrappers = []string{"model/", "state_dict/", "model_state_dict/", "module."}

// canonical returns the current name for a name in a file. Bare files hold only the encoder, without its prefix.
func canonical(name string, bare bool) string {
	// TensorFlow's names, which the first conversions kept.
	if rest, ok := strings.CutSuffix(name, "LayerNorm.gamma"); ok {
		name = rest + "LayerNorm.weight"
	} else if rest, ok := strings.CutSuffix(name, "LayerNorm.beta"); ok {
		name = rest + "LayerNorm.bias"
	}
	// NVIDIA DeepLearningExamples' layers with a fused activation.
	name = strings.Replace(name, ".dense_act.", ".dense.", 1)
	if bare && isBare(name) {
		return "bert." + name
	}
	return name
}

// isBare reports whether a name belongs to an encoder without its prefix.
func isBare(name string) bool {
	return strings.HasPrefix(name, "embeddings.") || strings.HasPrefix(name, "encoder.") || strings.HasPrefix(name, "pooler.")
}

// unwrapped strips the wrappers from a name.
func unwrapped(name string) string {
	for {
		before := name
		for _, w := range wrappers {
			name = strings.TrimPrefix(name, w)
		}
		if name == before {
			return name
		}
	}
}

// packed matches a matrix that stacks query, key and value, as in Graphcore's and Megatron's fused attention.
var packed = regexp.MustCompile(`^(.*attention\.self\.)(?:qkv|query_key_value)\.(weight|bias)$`)

// split cuts a packed tensor in three and returns other tensors unchanged.
func split(t weights.Tensor) []weights.Tensor {
	m := packed.FindStringSubmatch(t.Name)
	if m == nil || len(t.Shape) < 1 || t.Shape[0]%3 != 0 {
		return []weights.Tensor{t}
	}
	var parts []weights.Tensor
	for i, name := range []string{"query", "key", "value"} {
		n := t.Shape[0] / 3
		parts = append(parts, t.Rows(i*n, (i+1)*n).Named(m[1]+name+"."+m[2]))
	}
	return parts
}

// tensorFlow are the names of google-research/bert that do not follow from those of Hugging Face. Source:
// modeling.py, run_pretraining.py, run_squad.py, run_classifier.py. There, too, these matrices are [out, in].
var tensorFlow = map[string]string{
	"cls.predictions.bias":        "cls/predictions/output_bias",
	"cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
	"cls.seq_relationship.bias":   "cls/seq_relationship/output_bias",
	"qa_outputs.weight":           "cls/squad/output_weights",
	"qa_outputs.bias":             "cls/squad/output_bias",
	"classifier.weight":           "output_weights",
	"classifier.bias":             "output_bias",
}

var fromTensorFlowTable = func() map[string]string {
	m := make(map[string]string, len(tensorFlow))
	for here, there := range tensorFlow {
		m[there] = here
	}
	return m
}()

// step is the step counter's name: in a TensorFlow checkpoint, and beside the optimizer's slots here.
const step = "global_step"

// slotSuffixes are the slots of google-research/bert's AdamWeightDecayOptimizer, which NVIDIA's LAMB has as well,
// by harness's names of Adam's moments.
var slotSuffixes = []struct{ slot, suffix string }{{"m", "/adam_m"}, {"v", "/adam_v"}}

var layerNumber = regexp.MustCompile(`(^|\.)layer_(\d+)\.`)

// fromTensorFlow returns the parameter and the slot ("" for the parameter itself) of a variable of
// google-research/bert, and whether it is transposed, [in, out]. ok is false for other variables.
func fromTensorFlow(variable string) (parameter, slot string, transposed, ok bool) {
	for _, s := range slotSuffixes {
		if rest, found := strings.CutSuffix(variable, s.suffix); found {
			variable, slot = rest, s.slot
		}
	}
	if name, found := fromTensorFlowTable[variable]; found {
		return name, slot, false, true
	}
	if !strings.HasPrefix(variable, "bert/") && !strings.HasPrefix(variable, "cls/") {
		return "", "", false, false
	}
	name := layerNumber.ReplaceAllString(strings.ReplaceAll(variable, "/", "."), "${1}layer.$2.")
	switch {
	case strings.HasSuffix(name, "_embeddings"):
		name += ".weight"
	case strings.HasSuffix(name, ".gamma"):
		name = strings.TrimSuffix(name, "gamma") + "weight"
	case strings.HasSuffix(name, ".beta"):
		name = strings.TrimSuffix(name, "beta") + "bias"
	case strings.HasSuffix(name, ".kernel"):
		name, transposed = strings.TrimSuffix(name, "kernel")+"weight", true
	}
	return name, slot, transposed, true
}

var layerPart = regexp.MustCompile(`\.layer\.(\d+)\.`)

// toTensorFlow is the inverse of fromTensorFlow: the variable of a parameter.
func toTensorFlow(parameter string) (variable string, transposed bool) {
	if name, ok := tensorFlow[parameter]; ok {
		return name, false
	}
	name := parameter
	switch {
	case strings.HasSuffix(name, "_embeddings.weight"):
		name = strings.TrimSuffix(name, ".weight")
	case strings.HasSuffix(name, "LayerNorm.weight"):
		name = strings.TrimSuffix(name, "weight") + "gamma"
	case strings.HasSuffix(name, "LayerNorm.bias"):
		name = strings.TrimSuffix(name, "bias") + "beta"
	case strings.HasSuffix(name, ".weight"):
		name, transposed = strings.TrimSuffix(name, "weight")+"kernel", true
	}
	return strings.ReplaceAll(layerPart.ReplaceAllString(name, ".layer_$1."), ".", "/"), transposed
}
