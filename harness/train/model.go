package train

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
)

// ShapeKeys are the keys of a recipe's model that a model folder decides on: its shape, and what else changes the function that its parameters were
// trained for. Dropout, the spread of initial values and the mask are the recipe's.
func ShapeKeys() []string {
	return []string{"size", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
		"max_position_embeddings", "type_vocab_size", "layer_norm_eps"}
}

// UseModel takes over what the recipe's model folder, if it has one, says of the model and of the vocabulary.
func UseModel(r *recipe.Recipe) error {
	dir := r.Data.Files.Model
	if dir == "" {
		return nil
	}
	f, err := huggingface.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	c := f.Config.Model
	c.HiddenDropoutProb, c.AttentionProbsDropoutProb = r.Model.HiddenDropoutProb, r.Model.AttentionProbsDropoutProb
	c.InitializerRange, c.AttentionMask = r.Model.InitializerRange, r.Model.AttentionMask
	r.Model = recipe.Model{Config: c, Initializer: r.Model.Initializer}
	r.Vocab.PadToMultipleOf = 1
	if r.Data.Files.Vocab != "" {
		return nil
	}
	t, err := huggingface.ReadTokenizer(dir)
	if err != nil {
		return err
	}
	r.Vocab.Lowercase = t.Options.Lower
	return nil
}

// folderDigest is a SHA-256 over the configuration and the parameters in a model folder, or over a file.
func folderDigest(path string) (string, error) {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if info.IsDir() {
		files = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			name := e.Name()
			weights := slices.Contains([]string{".safetensors", ".bin", ".pt"}, filepath.Ext(name)) || strings.Contains(name, ".ckpt")
			if !e.IsDir() && (weights || name == "config.json" || name == "bert_config.json") {
				files = append(files, filepath.Join(path, name))
			}
		}
	}
	sum := sha256.New()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// loadModel overwrites initial values with the parameters of the data's model folder. What a head needs and the folder lacks stays initial, as it
// must before fine-tuning; a folder without an encoder is an error. It returns what was not there.
func (d *Data) loadModel(l *tensor.Layout, params []float32) (missing []string, err error) {
	rep, err := d.model.Load(l, params)
	if err != nil {
		return nil, err
	}
	for _, name := range rep.Missing {
		if strings.HasPrefix(name, "bert.") && !strings.HasPrefix(name, "bert.pooler.") {
			return nil, fmt.Errorf("model %s lacks %s, and %d parameters in all: it is another model, or one without an encoder", d.modelName, name, len(rep.Missing))
		}
	}
	return rep.Missing, nil
}

// saveModel writes the model as it is in Hugging Face's format, with its tokenizer and the recipe, by which harness predict knows how it was trained.
func (p *phase) saveModel(dir string) error {
	c, err := FolderConfig(p.recipe, p.program.Model)
	if err != nil {
		return err
	}
	if err := huggingface.Save(dir, c, p.program.Head, p.memory.Layout, p.memory.Params, tensor.F32); err != nil {
		return err
	}
	tokenizer := p.Data.folderTokenizer
	tokenizer.MaxLength = c.Model.MaxPositionEmbeddings
	if err := tokenizer.Save(dir); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, ModelRecipe), p.Recipe.Write)
}

// FolderConfig is the configuration of a model that a phase trained, for its folder: with the class that transformers has for it, and the names of the
// task's labels.
func FolderConfig(p *recipe.Phase, model bert.Config) (huggingface.Config, error) {
	c := huggingface.NewConfig(model, p.Head())
	t := p.FineTuning()
	if t == nil {
		return c, nil
	}
	return c, describeLabels(&c, t)
}

// ModelRecipe is the name of the recipe in a model folder.
const ModelRecipe = "recipe.yaml"

// describeLabels puts the names of a task's labels where transformers looks for them.
func describeLabels(c *huggingface.Config, t *tasks.Task) error {
	if t.Kind != bert.Classification {
		return nil
	}
	fields := map[string]any{"problem_type": "regression"}
	if !t.Regression() {
		names, ids := map[string]string{}, map[string]int{}
		for i, label := range t.Labels {
			names[strconv.Itoa(i)], ids[label] = label, i
		}
		fields = map[string]any{"problem_type": "single_label_classification", "id2label": names, "label2id": ids}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		text, err := json.Marshal(fields[key])
		if err != nil {
			return err
		}
		c.Other[key] = text
	}
	return nil
}

// sameLabels reports labels of a model that are not the task's in the task's order. A model that calls them LABEL_0 and so on is taken at its word.
func sameLabels(config map[string]json.RawMessage, t *tasks.Task) error {
	var names map[string]string
	if t.Kind != bert.Classification || t.Regression() || json.Unmarshal(config["id2label"], &names) != nil {
		return nil
	}
	for i, label := range t.Labels {
		name := names[strconv.Itoa(i)]
		if name != label && name != fmt.Sprintf("LABEL_%d", i) {
			return fmt.Errorf("label %d is %q in id2label, the task %s has %q there", i, name, t.Name, label)
		}
	}
	return nil
}
