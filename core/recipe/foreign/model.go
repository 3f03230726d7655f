package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
)

// models maps names of the Hugging Face hub, and folders of google-research/bert, by prefix, to the published size, the
// vocabulary, and whether case is folded.
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
	{"bert-base-multilingual-cased", "base", 119547, false},
	{"bert-base-multilingual-uncased", "base", 105879, true},
	{"bert-tiny", "tiny", 30522, true}, // of prajjwal1, and so on
	{"bert-mini", "mini", 30522, true},
	{"bert-small", "small", 30522, true},
	{"bert-medium", "medium", 30522, true},
	{"chinese_L-12_H-768_A-12", "base", 21128, true},
	{"multi_cased_L-12_H-768_A-12", "base", 119547, false},
	{"multilingual_L-12_H-768_A-12", "base", 105879, true},
}

// shaped are names that have the shape in them: uncased_L-12_H-768_A-12.
var shaped = regexp.MustCompile(`(?:^|_)(un)?cased_L-(\d+)_H-(\d+)_A-(\d+)`)

// others are models that are no BERT, by words in their names.
var others = []struct{ word, name string }{
	{"groupbert", "GroupBERT"}, {"roberta", "RoBERTa"}, {"distilbert", "DistilBERT"}, {"albert", "ALBERT"}, {"camembert", "CamemBERT"},
	{"mobilebert", "MobileBERT"}, {"squeezebert", "SqueezeBERT"}, {"convbert", "ConvBERT"}, {"flaubert", "FlauBERT"},
	{"rembert", "RemBERT"}, {"qdqbert", "QDQBERT"}, {"ibert", "I-BERT"}, {"nezha", "NEZHA"}, {"hubert", "HuBERT"},
	{"modernbert", "ModernBERT"}, {"megatron-bert", "Megatron-BERT"}, {"bigbird", "BigBird"}, {"big_bird", "BigBird"},
	{"xlnet", "XLNet"}, {"electra", "ELECTRA"}, {"deberta", "DeBERTa"}, {"gpt", "GPT"}, {"t5", "T5"}, {"bart", "BART"}, {"xlm", "XLM"},
	{"longformer", "Longformer"}, {"funnel", "Funnel Transformer"}, {"mpnet", "MPNet"}, {"ernie", "ERNIE"}, {"lxmert", "LXMERT"},
	{"layoutlm", "LayoutLM"}, {"wav2vec", "wav2vec 2.0"}, {"fnet", "FNet"}, {"llama", "Llama"}, {"canine", "CANINE"},
}

func notBERT(name string) error {
	return fmt.Errorf("the model is %s: only BERT is trained here", name)
}

// checkBERT is an error if a model's name says that it is another one.
func checkBERT(model string) error {
	name := strings.ToLower(path.Base(model))
	for _, o := range others {
		if at := strings.Index(name, o.word); at == 0 || at > 0 && !isLetter(name[at-1]) {
			return fmt.Errorf("model %s is %s: only BERT is trained here", model, o.name)
		}
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' }

// finishModel resolves which model the line names.
func (m *importer) finishModel() error {
	if m.shape == "" {
		m.shape = m.model
	}
	if m.shape == "" {
		return errors.New("--model_name_or_path is not given")
	}
	for _, name := range []string{m.shape, m.model} {
		if err := checkBERT(name); err != nil {
			return err
		}
	}
	folder := m.model
	if m.command.program.family != &transformers && folder != "" {
		folder = path.Dir(folder) // of a checkpoint
	}
	if folder != "" && isFolder(folder) {
		m.modelFolder = folder
	}
	if m.tokenizer != "" && m.tokenizer != m.shape && m.tokenizer != m.model {
		m.refuse("--tokenizer_name "+m.tokenizer, "the vocabulary comes by --data vocab=FILE")
	}
	return nil
}

// modelSize fills in the shape that belongs to the model's name, and returns it.
func (m *importer) modelSize(model, vocab *settings) bert.Config {
	config := bert.Defaults()
	found := m.readShape(model, vocab, &config) || m.knownShape(model, vocab, &config)
	if !found {
		size := "base"
		if strings.Contains(strings.ToLower(m.shape), "large") {
			size = "large"
		}
		model.set("size", size)
		config, _ = config.Size(size) // which is in the table
		vocab.set("lowercase", strconv.FormatBool(!strings.Contains(m.shape, "-cased")))
		if m.modelFolder == "" {
			m.refuse(m.shape, "the model's shape is not known: BERT-"+strings.ToUpper(size[:1])+size[1:]+" is assumed; a folder given by "+
				"--data model=FOLDER goes before")
		}
	}
	if !m.lowercase || m.cased {
		vocab.set("lowercase", "false")
	}
	if m.padVocab != "" {
		vocab.set("pad_to_multiple_of", m.padVocab)
	}
	if m.modelFolder == "" && m.model != "" {
		m.notes = append(m.notes, "the weights of "+m.model+" are not downloaded: give their folder by --data model=FOLDER, "+
			"or training starts from random ones")
	}
	model.set("hidden_act", string(m.activation))
	model.set("initializer", m.initializer)
	model.set("layer_norm_eps", "1e-12")
	mask := "-10000"
	if m.onIPU {
		mask = "-1000"
	}
	model.set("attention_mask_value", mask)
	for _, key := range m.overrideShape.keys {
		model.set(key, m.overrideShape.values[key])
		if key == "vocab_size" {
			vocab.set("size", m.overrideShape.values[key])
		}
	}
	return config
}

// knownShape fills in the shape of a name in the table, or of one that says it.
func (m *importer) knownShape(model, vocab *settings, config *bert.Config) bool {
	name := path.Base(m.shape)
	for _, known := range models {
		if !strings.HasPrefix(name, known.prefix) {
			continue
		}
		model.set("size", known.size)
		model.set("vocab_size", strconv.Itoa(known.vocab))
		vocab.set("size", strconv.Itoa(known.vocab))
		vocab.set("lowercase", strconv.FormatBool(known.lowercase))
		*config, _ = config.Size(known.size) // which is in the table
		return true
	}
	s := shaped.FindStringSubmatch(name)
	if s == nil {
		return false
	}
	size := 28996
	if s[1] != "" {
		size = 30522
	}
	layers, hidden, heads := s[2], s[3], s[4]
	for _, published := range bert.SizeNames() {
		c, _ := config.Size(published) // which is in the table
		if strconv.Itoa(c.NumHiddenLayers) == layers && strconv.Itoa(c.HiddenSize) == hidden {
			*config = c
			model.set("size", published)
		}
	}
	if model.values["size"] == "" {
		model.set("num_hidden_layers", layers)
		model.set("hidden_size", hidden)
		model.set("num_attention_heads", heads)
		if width, err := strconv.Atoi(hidden); err == nil && width < 1<<16 {
			model.set("intermediate_size", strconv.Itoa(4*width))
		}
		config.NumHiddenLayers, _ = strconv.Atoi(layers) // digits
	}
	model.set("vocab_size", strconv.Itoa(size))
	vocab.set("size", strconv.Itoa(size))
	vocab.set("lowercase", strconv.FormatBool(s[1] != ""))
	return true
}

// readShape fills in the shape of the file that the line names, if it is here.
func (m *importer) readShape(model, vocab *settings, config *bert.Config) bool {
	if m.config == "" {
		return false
	}
	text, err := bounded.ReadFile(m.config, bounded.MiB)
	if err != nil || json.Unmarshal(text, config) != nil || config.Validate() != nil {
		return false
	}
	for _, field := range []struct {
		key   string
		value int
	}{
		{"vocab_size", config.VocabSize}, {"hidden_size", config.HiddenSize}, {"num_hidden_layers", config.NumHiddenLayers},
		{"num_attention_heads", config.NumAttentionHeads}, {"intermediate_size", config.IntermediateSize},
		{"max_position_embeddings", config.MaxPositionEmbeddings}, {"type_vocab_size", config.TypeVocabSize},
	} {
		model.set(field.key, strconv.Itoa(field.value))
	}
	vocab.set("size", strconv.Itoa(config.VocabSize))
	vocab.set("lowercase", strconv.FormatBool(!strings.Contains(m.shape, "-cased") && !strings.HasPrefix(m.shape, "cased")))
	return true
}
