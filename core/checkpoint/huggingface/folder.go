package huggingface

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/durable"
	"harness.invalid/core/tensor"
)

// The files of a folder.
const (
	configFile = "config.json"
	modelFile  = "model.safetensors"
)

// Folder is an open model folder.
type Folder struct {
	Config Config

	file   *weights.File
	stored map[string]string // name in the file by the name in bert.Parameters
}

// Open reads the configuration of a model folder and maps its tensors into memory.
func Open(dir string) (*Folder, error) {
	config, err := ReadConfig(filepath.Join(dir, configFile))
	if err != nil {
		return nil, fmt.Errorf("model %w", err)
	}
	file, err := safetensors.Open(filepath.Join(dir, modelFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model %s holds no %s", dir, modelFile)
	} else if err != nil {
		return nil, fmt.Errorf("model %w", err)
	}
	f := &Folder{Config: config, file: file}
	if err := f.match(); err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", dir, err), file.Close())
	}
	return f, nil
}

// Close unmaps the tensors.
func (f *Folder) Close() error { return f.file.Close() }

// match finds out which parameter each tensor of the file is.
func (f *Folder) match() error {
	names := f.file.Names()
	bare := !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "bert.") })
	f.stored = make(map[string]string, len(names))
	for _, name := range names {
		parameter := canonical(name, bare)
		if slices.Contains(buffers, parameter) {
			continue
		}
		if other, ok := f.stored[parameter]; ok {
			return fmt.Errorf("tensors %s and %s both are %s", other, name, parameter)
		}
		f.stored[parameter] = name
	}
	return nil
}

// buffers are no parameters, but older versions of transformers store them.
var buffers = []string{"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"}

// tied are the second names of parameters that BERT uses twice. A file has either or both.
var tied = map[string]string{
	"bert.embeddings.word_embeddings.weight": "cls.predictions.decoder.weight",
	"cls.predictions.bias":                   "cls.predictions.decoder.bias",
}

// canonical is the name of today for a name in a file; bare files store the encoder alone, without a prefix.
func canonical(name string, bare bool) string {
	// TensorFlow's names, which the first conversions kept.
	if rest, ok := strings.CutSuffix(name, "LayerNorm.gamma"); ok {
		name = rest + "LayerNorm.weight"
	} else if rest, ok := strings.CutSuffix(name, "LayerNorm.beta"); ok {
		name = rest + "LayerNorm.bias"
	}
	// NVIDIA DeepLearningExamples' layers with a fused activation.
	name = strings.Replace(name, ".dense_act.", ".dense.", 1)
	if bare {
		for _, part := range []string{"embeddings.", "encoder.", "pooler."} {
			if strings.HasPrefix(name, part) {
				return "bert." + name
			}
		}
	}
	return name
}

// Report tells how a file and a model differed.
type Report struct {
	Missing    []string // parameters that the file lacks: they keep the values that they had
	Unexpected []string // tensors that the model has no use for, by their names in the file
	Padded     []string // parameters whose vocabulary is longer or shorter in the file: cut off, or filled up with zeros
}

// maxPadding is less than what vocabularies are padded by: they become multiples of 8, 64 or 128.
const maxPadding = 128

// Load reads the parameters of a layout into a section. A tensor of a wrong shape or type is an error; what else does not fit is in the Report.
func (f *Folder) Load(l *tensor.Layout, params []float32) (Report, error) {
	if len(params) != l.Len() {
		return Report{}, fmt.Errorf("model %s: section of %d elements, want %d", f.file.Name(), len(params), l.Len())
	}
	var rep Report
	used := make(map[string]bool, len(f.stored))
	for _, t := range l.Tensors() {
		name, ok := f.stored[t.Name]
		second := f.stored[tied[t.Name]]
		if !ok {
			name, ok = second, second != ""
		}
		if !ok {
			rep.Missing = append(rep.Missing, t.Name)
			continue
		}
		padded, err := f.load(name, t, params)
		if err != nil {
			return rep, err
		}
		if padded {
			rep.Padded = append(rep.Padded, t.Name)
		}
		used[name] = true
		if second != "" && second != name {
			same, err := f.same(name, second)
			if err != nil {
				return rep, err
			}
			used[second] = same // a decoder of its own is not what harness trains
		}
	}
	for _, name := range f.stored {
		if !used[name] {
			rep.Unexpected = append(rep.Unexpected, name)
		}
	}
	slices.Sort(rep.Unexpected)
	return rep, nil
}

// load reads one tensor and tells whether its vocabulary was longer or shorter.
func (f *Folder) load(name string, t tensor.Tensor, params []float32) (padded bool, err error) {
	info, _ := f.file.Tensor(name)
	dst := t.Of(params)
	if slices.Equal(info.Shape, t.Shape) {
		if err := f.file.ReadFloat32s(name, dst); err != nil {
			return false, fmt.Errorf("model %w", err)
		}
		return false, nil
	}
	if _, vocabulary := tied[t.Name]; !vocabulary || len(info.Shape) != len(t.Shape) || !slices.Equal(info.Shape[1:], t.Shape[1:]) || abs(info.Shape[0]-t.Shape[0]) >= maxPadding {
		return false, fmt.Errorf("model %s: tensor %s has shape %v, want %v", f.file.Name(), name, info.Shape, t.Shape)
	}
	values, err := f.file.Float32s(name)
	if err != nil {
		return false, fmt.Errorf("model %w", err)
	}
	clear(dst[copy(dst, values):])
	return true, nil
}

// same reports whether two tensors have the same bytes.
func (f *Folder) same(a, b string) (bool, error) {
	x, err := f.file.Bytes(a)
	if err != nil {
		return false, fmt.Errorf("model %w", err)
	}
	y, err := f.file.Bytes(b)
	if err != nil {
		return false, fmt.Errorf("model %w", err)
	}
	s, _ := f.file.Tensor(a)
	t, _ := f.file.Tensor(b)
	return s.DType == t.DType && bytes.Equal(x, y), nil
}

func abs(n int) int { return max(n, -n) }

// dtypes are the types that Save can store parameters in, with transformers' names for them.
var dtypes = map[tensor.DType]string{tensor.F32: "float32", tensor.F16: "float16", tensor.BF16: "bfloat16"}

// Save writes a model folder, which is made if it is not there. Parameters are stored as dtype: F32, F16 or BF16, rounded to the nearest. The
// tied decoder is not stored twice; transformers ties it again.
func Save(dir string, c Config, h bert.Head, l *tensor.Layout, params []float32, dtype tensor.DType) error {
	fail := func(err error) error { return fmt.Errorf("model %s: %w", dir, err) }
	if dtypes[dtype] == "" {
		return fail(fmt.Errorf("parameters can't be stored as %q, want F32, F16 or BF16", dtype))
	}
	if len(params) != l.Len() {
		return fail(fmt.Errorf("section of %d elements, want %d", len(params), l.Len()))
	}
	want, err := bert.Parameters(c.Model, h)
	if err != nil {
		return fail(err)
	}
	if !l.Equal(want) {
		return fail(errors.New("the layout is not that of the configuration and the head"))
	}
	config, err := c.marshal(h, dtypes[dtype])
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fail(err)
	}
	var contents []weights.Content
	for _, t := range l.Tensors() {
		contents = append(contents, weights.Of(t.Name, t.Shape, t.Of(params)).As(dtype))
	}
	if err := safetensors.Write(filepath.Join(dir, modelFile), contents, map[string]string{"format": "pt"}); err != nil {
		return fail(err)
	}
	err = durable.WriteFile(filepath.Join(dir, configFile), func(w io.Writer) error {
		_, err := w.Write(config)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return nil
}
