// Package huggingface reads and writes model folders as Hugging Face's transformers library does: config.json,
// model.safetensors and the tokenizer's files.
//
// bert.Parameters has the names and shapes of BertForPreTraining and its siblings, so folders load in both
// directions. Reading accepts the variants found in the wild: tensors in shards, in PyTorch's pytorch_model.bin or
// in TensorFlow's checkpoints; an encoder without the prefix bert., gamma and beta for the layer normalisations,
// tied tensors that are stored or left out, NVIDIA's dense_act, packed query, key and value, padded vocabularies, a
// model inside a training checkpoint. A Report lists what was missing and what was unused; nothing is guessed.
package huggingface

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/jsonerror"
)

// Config is a config.json.
type Config struct {
	Model bert.Config
	// Labels is the number of labels of a classifier: num_labels, or the entries of id2label. 0: not given.
	Labels int
	// Other holds the keys that harness does not use. They are written back unchanged.
	Other map[string]json.RawMessage
}

// defaults are the values of keys that a file leaves out. Source: transformers, configuration_bert.py. The mask is
// google-research/bert's; its key is harness's own, and transformers ignores it.
func defaults() bert.Config {
	c := bert.Defaults()
	c.HiddenAct = bert.GELU
	return c
}

// activations are transformers' names of the two forms of GELU (activations.py, ACT2FN).
var activations = map[bert.Activation]bert.Activation{
	"gelu": bert.GELU, "gelu_python": bert.GELU,
	"gelu_new": bert.GELUNew, "gelu_pytorch_tanh": bert.GELUNew, "gelu_fast": bert.GELUNew,
}

// only lists keys that change what the model computes, with the values of the BERT that harness trains.
var only = map[string][]any{
	"model_type":              {"bert"},
	"position_embedding_type": {"absolute"},
	"is_decoder":              {false},
	"add_cross_attention":     {false},
	"tie_word_embeddings":     {true},
	"is_encoder_decoder":      {false},
}

// ReadConfig reads a config.json or, by its name, google-research/bert's bert_config.json, where "gelu" is the tanh
// form (modeling.py, gelu). For any other kind of model the error names the key that shows it.
func ReadConfig(path string) (Config, error) {
	text, err := bounded.ReadFile(path, 16*bounded.MiB)
	if err != nil {
		return Config{}, err
	}
	c, err := parseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	if filepath.Base(path) == googleConfigFile && c.Model.HiddenAct == bert.GELU {
		c.Model.HiddenAct = bert.GELUNew
	}
	return c, nil
}

// readConfigIn reads the configuration of a folder.
func readConfigIn(dir string) (Config, error) {
	c, err := ReadConfig(filepath.Join(dir, configFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	c, err = ReadConfig(filepath.Join(dir, googleConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return c, bounded.As(fs.ErrNotExist, "%s holds no %s or %s", dir, configFile, googleConfigFile)
	}
	return c, err
}

func parseConfig(text []byte) (Config, error) {
	c := Config{Model: defaults()}
	if err := json.Unmarshal(text, &c.Other); err != nil {
		return c, jsonerror.Explain(text, err)
	}
	if c.Other == nil {
		return c, fmt.Errorf("the file holds null, want an object")
	}
	for _, key := range slices.Sorted(maps.Keys(only)) {
		raw, ok := c.Other[key]
		if !ok || string(raw) == "null" {
			continue
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil || !slices.Contains(only[key], v) {
			return c, fmt.Errorf("%s is %s, want %v: the model is of another kind", key, raw, only[key][0])
		}
	}
	// A null counts as a missing key.
	known := maps.Clone(c.Other)
	maps.DeleteFunc(known, func(_ string, raw json.RawMessage) bool { return string(raw) == "null" })
	clean, err := json.Marshal(known)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(clean, &c.Model); err != nil {
		return c, jsonerror.Explain(clean, err)
	}
	act, ok := activations[c.Model.HiddenAct]
	if !ok {
		return c, fmt.Errorf("hidden_act is %q, want one of %v", c.Model.HiddenAct, slices.Sorted(maps.Keys(activations)))
	}
	c.Model.HiddenAct = act
	if err := c.readLabels(); err != nil {
		return c, err
	}
	for _, key := range modelKeys() {
		delete(c.Other, key)
	}
	return c, c.Model.Validate()
}

func (c *Config) readLabels() error {
	if raw, ok := c.Other["num_labels"]; ok {
		if err := json.Unmarshal(raw, &c.Labels); err != nil {
			return fmt.Errorf("num_labels is %s, want a whole number", raw)
		}
		return nil
	}
	if raw, ok := c.Other["id2label"]; ok {
		var labels map[string]string
		if err := json.Unmarshal(raw, &labels); err != nil {
			return fmt.Errorf("id2label: want the names of the labels by their numbers: %w", jsonerror.Explain(raw, err))
		}
		c.Labels = len(labels)
	}
	return nil
}

// modelKeys are the keys of bert.Config.
func modelKeys() []string {
	text, err := json.Marshal(bert.Config{})
	if err != nil {
		panic("huggingface: a config can't be written as JSON") // it is plain numbers and a string
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		panic("huggingface: a config can't be read back")
	}
	return slices.Sorted(maps.Keys(fields))
}

// architectures are transformers' classes for a task's parameters.
var architectures = map[bert.Task]string{
	bert.Pretraining:         "BertForPreTraining",
	bert.QuestionAnswering:   "BertForQuestionAnswering",
	bert.Classification:      "BertForSequenceClassification",
	bert.MultipleChoice:      "BertForMultipleChoice",
	bert.TokenClassification: "BertForTokenClassification",
}

// NewConfig is the configuration of a model with a head. It names the architecture where two classes of
// transformers have the same parameters.
func NewConfig(model bert.Config, h bert.Head) Config {
	architecture, err := json.Marshal([]string{architectures[h.Task]})
	if err != nil {
		panic("huggingface: a name can't be written as JSON") // no string can't
	}
	return Config{Model: model, Labels: labels(h), Other: map[string]json.RawMessage{"architectures": architecture}}
}

// labels is transformers' num_labels, or 0 where that has no meaning: a model for multiple choice scores any number
// of choices.
func labels(h bert.Head) int {
	if h.Task == bert.Classification || h.Task == bert.TokenClassification {
		return h.Labels
	}
	return 0
}

// marshal writes a config.json as transformers does: sorted keys, two spaces. labels are those of a classifier, else 0.
func (c Config) marshal(architecture string, labels int, dtype string) ([]byte, error) {
	fields := maps.Clone(c.Other)
	if fields == nil {
		fields = make(map[string]json.RawMessage)
	}
	text, err := json.Marshal(c.Model)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if c.Model.AttentionMask == defaults().AttentionMask {
		delete(fields, "attention_mask_value")
	}
	set := func(key string, v any) {
		if err == nil {
			fields[key], err = json.Marshal(v)
		}
	}
	set("model_type", "bert")
	set("architectures", []string{architecture})
	set("torch_dtype", dtype)
	if labels > 0 {
		names, ids := make(map[string]string), make(map[string]int)
		for i := range labels {
			name := fmt.Sprintf("LABEL_%d", i)
			names[fmt.Sprint(i)], ids[name] = name, i
		}
		delete(fields, "num_labels") // transformers counts id2label
		if c.Labels != labels || fields["id2label"] == nil {
			set("id2label", names)
			set("label2id", ids)
		}
	}
	if err != nil {
		return nil, err
	}
	text, err = json.MarshalIndent(fields, "", "  ")
	return append(text, '\n'), err
}

// marshalGoogle writes a bert_config.json. Its "gelu" is the tanh form; it has no name for the erf form.
func (c Config) marshalGoogle() ([]byte, error) {
	c.Model.HiddenAct = bert.GELU
	text, err := json.Marshal(c.Model)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for _, key := range []string{"attention_mask_value", "layer_norm_eps"} { // constants of modeling.py
		delete(fields, key)
	}
	for _, key := range googleKeys {
		if v, ok := c.Other[key]; ok {
			fields[key] = v
		}
	}
	text, err = json.MarshalIndent(fields, "", "  ")
	return append(text, '\n'), err
}

// googleKeys are keys of published bert_config.json files that nothing reads.
var googleKeys = []string{"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
	"pooler_size_per_head", "pooler_type"}
