package huggingface

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/pytorch"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/tensorflow"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// Format is a file format for models.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors" // model.safetensors, in shards if wanted
	PyTorch     Format = "pytorch"     // pytorch_model.bin
	TensorFlow  Format = "tensorflow"  // bert_model.ckpt, with google-research/bert's names
)

// Formats lists all formats.
func Formats() []string { return []string{string(Safetensors), string(PyTorch), string(TensorFlow)} }

// Target describes how to write a model.
type Target struct {
	Format     Format
	DType      tensor.DType // of the parameters: F32, F16 or BF16; "": as they are, doubles as F32
	ShardBytes int64        // greatest size of a file of safetensors; 0: one file
	Tokenizer  *Tokenizer   // nil: the source's files are copied, and missing ones are made
	// Progress receives the number of bytes written so far; an error from it stops the writing. nil: no reports.
	Progress func(done, total int64) error
}

// checkpointName is what google-research/bert calls its checkpoints.
const checkpointName = "bert_model.ckpt"

// Write writes the model as a folder that transformers, or google-research/bert, loads without a warning: tensors
// under current names, tied ones once, configuration, tokenizer, and an optimizer's slots beside them. It is an
// error if the source lacks parameters of the architecture. Tensors that the architecture does not use are left out
// and listed in the Report.
func (f *Folder) Write(dir string, t Target) (Report, error) {
	fail := func(rep Report, err error) (Report, error) { return rep, fmt.Errorf("model %s: %w", dir, err) }
	m, rep, err := f.output(t)
	if err != nil {
		return rep, err
	}
	config, configName := []byte(nil), configFile
	if t.Format == TensorFlow {
		configName = googleConfigFile
		if f.Config.Model.HiddenAct != bert.GELUNew {
			rep.Notes = append(rep.Notes, `hidden_act is the erf form of GELU, and "gelu" of google-research/bert is the tanh form: `+
				`it computes slightly different values`)
		}
		config, err = f.Config.marshalGoogle()
	} else {
		config, err = f.Config.marshal(m.architecture, m.labels, dtypes[m.dtype])
	}
	if err != nil {
		return fail(rep, err)
	}
	tokenizer, err := f.tokenizer(t)
	if err != nil {
		return fail(rep, err)
	}
	if tokenizer != nil && tokenizer.Vocab.Len() > f.Config.Model.VocabSize {
		rep.Notes = append(rep.Notes, fmt.Sprintf("the vocabulary has %d entries and the model %d: text may have ids that it does not know",
			tokenizer.Vocab.Len(), f.Config.Model.VocabSize))
	}
	// Loaders might take an older model in another format instead.
	if other, err := modelIn(dir); err == nil && formatOf(other) != t.Format {
		return fail(rep, fmt.Errorf("the folder holds a model in another format, %s: write to another folder", filepath.Base(other)))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fail(rep, err)
	}
	if err := unseal(dir); err != nil {
		return fail(rep, err)
	}
	switch t.Format {
	case TensorFlow:
		err = tensorflow.Write(filepath.Join(dir, checkpointName), append(m.contents, m.optimizer...))
	case PyTorch:
		err = pytorch.Write(filepath.Join(dir, binFile), m.contents, m.aliases)
	default:
		err = saveTensors(dir, m.contents, t.ShardBytes)
	}
	if err != nil {
		return fail(rep, err)
	}
	if t.Format != TensorFlow {
		if err := saveOptimizer(filepath.Join(dir, optimizerFile), m.optimizer); err != nil {
			return fail(rep, err)
		}
	}
	if err := saveFile(filepath.Join(dir, configName), config); err != nil {
		return fail(rep, err)
	}
	from := f.dir
	if t.Tokenizer != nil {
		from = ""
	}
	switch {
	case tokenizer == nil:
	case t.Format == TensorFlow:
		err = copyFile(from, dir, vocabFile, *tokenizer)
	default:
		err = copyTokenizer(from, dir, *tokenizer)
	}
	if err != nil {
		return fail(rep, err)
	}
	return rep, Seal(dir)
}

// WriteFile writes only the parameters: one file, or the two of a TensorFlow checkpoint.
func (f *Folder) WriteFile(path string, t Target) (Report, error) {
	m, rep, err := f.output(t)
	if err != nil {
		return rep, err
	}
	return rep, m.writeFile(path, t)
}

func (m *output) writeFile(path string, t Target) error {
	switch t.Format {
	case TensorFlow:
		return tensorflow.Write(tensorflow.Prefix(path), append(m.contents, m.optimizer...))
	case PyTorch:
		return pytorch.Write(path, m.contents, m.aliases)
	}
	return safetensors.Write(path, m.contents, modelMetadata)
}

// Copy writes all tensors of a file into another one under the same names and shapes. It needs no configuration.
// Integers keep their type.
func Copy(from *weights.File, path string, t Target) error {
	var m output
	for _, stored := range from.Tensors() {
		c := stored.Content()
		switch c.DType {
		case tensor.F64, tensor.F32, tensor.F16, tensor.BF16:
			if t.DType != "" {
				c = c.As(t.DType)
			}
		}
		m.contents = append(m.contents, c)
	}
	if err := m.observe(t); err != nil {
		return err
	}
	return m.writeFile(path, t)
}

// formatOf returns the format of a file that modelIn found.
func formatOf(path string) Format {
	switch name := filepath.Base(path); {
	case strings.HasPrefix(name, modelFile):
		return Safetensors
	case strings.HasPrefix(name, binFile):
		return PyTorch
	}
	return TensorFlow
}

// tokenizer returns the tokenizer to write beside the model; nil if the source has none.
func (f *Folder) tokenizer(t Target) (*Tokenizer, error) {
	if t.Tokenizer != nil {
		return t.Tokenizer, nil
	}
	found, err := ReadTokenizer(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if found.MaxLength == 0 {
		found.MaxLength = f.Config.Model.MaxPositionEmbeddings
	}
	return &found, nil
}

// saveOptimizer writes the slots, or removes stale ones.
func saveOptimizer(path string, contents []weights.Content) error {
	if len(contents) == 0 {
		return removeAll([]string{path})
	}
	return safetensors.Write(path, contents, nil)
}
