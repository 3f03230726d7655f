// Package pretrained connects recipes with folders of trained models, such as those of Hugging Face: the model that
// a recipe starts from, and the model that a run leaves.
package pretrained

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
)

// ShapeKeys are the keys of a recipe's model that the model folder determines: its shape, and what else changes the
// function that its parameters were trained for. Dropout, the spread of initial values and the mask stay the
// recipe's.
func ShapeKeys() []string {
	return []string{"size", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
		"max_position_embeddings", "type_vocab_size", "layer_norm_eps"}
}

// MissingError says that there is no model where one was named.
type MissingError struct{ Path string }

func (e *MissingError) Error() string { return "model " + e.Path + ": there is no such folder or file" }

// Is makes it an fs.ErrNotExist.
func (e *MissingError) Is(target error) bool { return target == fs.ErrNotExist }

// Configure sets what the recipe's model folder, if it has one, determines about the model and the vocabulary.
func Configure(r *recipe.Recipe) error {
	dir := r.Data.Files.Model
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &MissingError{dir}
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

// Model is a model folder that is open for reading.
type Model struct {
	folder *huggingface.Folder
	path   string
}

// Open opens a model folder, or a single file with a model.
func Open(path string) (*Model, error) {
	f, err := huggingface.Open(path)
	if err != nil {
		return nil, err
	}
	return &Model{f, path}, nil
}

// Close closes the files.
func (m *Model) Close() error { return m.folder.Close() }

// Digest is a SHA-256 over configuration and parameters in hexadecimal.
func (m *Model) Digest() (string, error) {
	files := []string{m.path}
	if info, err := os.Stat(m.path); err != nil {
		return "", err
	} else if info.IsDir() {
		files = nil
		entries, err := os.ReadDir(m.path)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			name := e.Name()
			weights := slices.Contains([]string{".safetensors", ".bin", ".pt"}, filepath.Ext(name)) || strings.Contains(name, ".ckpt")
			if !e.IsDir() && (weights || name == "config.json" || name == "bert_config.json") {
				files = append(files, filepath.Join(m.path, name))
			}
		}
	}
	sum := sha256.New()
	for _, name := range files {
		f, err := bounded.Open(name, bounded.TiB)
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

// Load copies the parameters of the model to those of a layout. It leaves the ones that the model lacks as they are
// and returns their names: fine-tuning needs initial values for a new head. A model without an encoder is an error.
func (m *Model) Load(l *tensor.Layout, params []float32) (missing []string, err error) {
	r, err := m.folder.Load(l, params)
	if err != nil {
		return nil, err
	}
	for _, name := range r.Missing {
		if strings.HasPrefix(name, "bert.") && !strings.HasPrefix(name, "bert.pooler.") {
			return nil, fmt.Errorf("model %s lacks %s, and %d parameters in all: it is another model, or one without an encoder",
				m.path, name, len(r.Missing))
		}
	}
	return r.Missing, nil
}

// LoadAll is Load for a model that has already been trained for its task: a parameter that is missing is an error.
func (m *Model) LoadAll(l *tensor.Layout, params []float32) error {
	missing, err := m.Load(l, params)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("model %s lacks %s, and %d parameters in all: it was not trained for this task",
			m.path, missing[0], len(missing))
	}
	return err
}

// Labels are the names of the model's labels, by their numbers.
func (m *Model) Labels() ([]string, error) {
	labels, err := labelsOf(m.folder.Config.Other)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.path, err)
	}
	return labels, nil
}

// CheckLabels returns an error if the model's labels are not those of the task in the task's order.
func (m *Model) CheckLabels(t *tasks.Task) error {
	if err := checkLabels(m.folder.Config.Other, t); err != nil {
		return fmt.Errorf("model %s: %w", m.path, err)
	}
	return nil
}
