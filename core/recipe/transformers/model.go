package transformers

import (
	"path"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
)

// models maps names of the Hugging Face hub, by prefix, to the published size, the vocabulary, and whether case is
// folded.
var models = []struct {
	prefix    string
	size      string
	vocab     int
	lowercase bool
}{
	{"bert-base-uncased", "base", 30522, true},
	{"bert-large-uncased", "large", 30522, true},
	{"bert-base-cased", "base", 28996, false},
	{"bert-large-cased", "large", 28996, false},
	{"bert-base-chinese", "base", 21128, true},
	{"bert_uncased_L-2_H-128_A-2", "tiny", 30522, true},
	{"bert_uncased_L-4_H-256_A-4", "mini", 30522, true},
	{"bert_uncased_L-4_H-512_A-8", "small", 30522, true},
	{"bert_uncased_L-8_H-512_A-8", "medium", 30522, true},
	{"bert_uncased_L-12_H-768_A-12", "base", 30522, true},
}

// modelSize fills in the shape that belongs to the model's name, and returns it.
func (m *importer) modelSize(model, vocab *settings) bert.Config {
	config := bert.Defaults()
	name := path.Base(m.model)
	found := false
	for _, known := range models {
		if !strings.HasPrefix(name, known.prefix) {
			continue
		}
		found = true
		model.set("size", known.size)
		model.set("vocab_size", strconv.Itoa(known.vocab))
		vocab.set("size", strconv.Itoa(known.vocab))
		vocab.set("lowercase", strconv.FormatBool(known.lowercase))
		config, _ = config.Size(known.size) // which is in the table
		break
	}
	if !found {
		model.set("size", "base")
		vocab.set("lowercase", strconv.FormatBool(!strings.Contains(name, "-cased")))
		if m.modelFolder == "" {
			m.refuse("--model_name_or_path "+m.model, "its shape is not known: BERT-Base is assumed; a folder given by "+
				"--data model=FOLDER goes before")
		}
	}
	if m.modelFolder == "" {
		m.notes = append(m.notes, "the weights of "+m.model+" are not downloaded: give their folder by --data model=FOLDER, "+
			"or training starts from random ones")
	}
	model.set("hidden_act", "gelu") // with erf, as Hugging Face's BERT has it
	model.set("initializer", "normal")
	model.set("layer_norm_eps", "1e-12")
	mask := "-10000"
	if m.onIPU {
		mask = "-1000"
	}
	model.set("attention_mask_value", mask)
	return config
}
