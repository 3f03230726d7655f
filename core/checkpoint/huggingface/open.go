package huggingface

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/checkpoint/pytorch"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/tensorflow"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/jsonerror"
)

// The files of a folder.
const (
	configFile       = "config.json"
	googleConfigFile = "bert_config.json"
	modelFile        = "model.safetensors"
	binFile          = "pytorch_model.bin"
	optimizerFile    = "optimizer.safetensors"
	indexSuffix      = ".index.json"
)

// OpenTensors opens the tensors of a model in any format, under the names that the file has: a file of safetensors
// or torch.save, an index of shards, the prefix or a file of a TensorFlow checkpoint, or a folder with one of these
// under its usual name. The content of a file tells its kind.
func OpenTensors(path string) (*weights.File, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		file, err := modelIn(path)
		if err != nil {
			return nil, err
		}
		return OpenTensors(file)
	case tensorflow.IsCheckpoint(path):
		return tensorflow.Open(path)
	case err != nil:
		return nil, err
	}
	f, err := bounded.Open(path, 64*bounded.TiB)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 9)
	n, err := f.Read(head)
	if err = errors.Join(err, f.Close()); err != nil && n == 0 && info.Size() > 0 {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	head = head[:n]
	switch {
	case strings.HasSuffix(path, indexSuffix):
		return openShards(path)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte{0x80}) && !(n == 9 && head[8] == '{'):
		return pytorch.Open(path)
	case n == 9 && head[8] == '{', strings.HasSuffix(path, ".safetensors"):
		return safetensors.Open(path)
	}
	return nil, fmt.Errorf("%s: byte 0: file begins with %q: want safetensors, a file of torch.save, an index of shards "+
		"(*%s), or a TensorFlow checkpoint (PREFIX.index beside its data): %w",
		path, head, indexSuffix, weights.ErrFormat)
}

// modelIn finds the file with the model's tensors in a folder: the one that transformers would load, else a
// TensorFlow checkpoint.
func modelIn(dir string) (string, error) {
	for _, name := range []string{modelFile, modelFile + indexSuffix, binFile, binFile + indexSuffix} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	found, err := filepath.Glob(filepath.Join(escape(dir), "*.ckpt*"+tensorflow.IndexSuffix))
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("model %s holds no %s, %s or TensorFlow checkpoint (*.ckpt%s)", dir, modelFile, binFile, tensorflow.IndexSuffix)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("model %s holds %d TensorFlow checkpoints: name one, such as %s", dir, len(found),
		tensorflow.Prefix(found[len(found)-1]))
}

// escape quotes a path for filepath.Glob.
func escape(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// maxIndex is the greatest length of an index of shards in bytes.
const maxIndex = 64 << 20

// shardIndex is a model.safetensors.index.json.
type shardIndex struct {
	Metadata map[string]any `json:"metadata"`
	Files    weightMap      `json:"weight_map"`
}

// weightMap maps tensor names to files.
type weightMap map[string]string

// UnmarshalJSON rejects duplicate names, which encoding/json accepts.
func (m *weightMap) UnmarshalJSON(text []byte) error {
	*m = make(weightMap)
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("weight_map is %s, want an object", weights.Clip(string(text)))
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		file, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := name.(string)
		value, ok := file.(string)
		if _, twice := (*m)[key]; twice || !ok {
			return fmt.Errorf("weight_map has %s twice, or its file is not a string", weights.Quote(key))
		}
		(*m)[key] = value
	}
	return nil
}

// openShards opens all files of an index as one.
func openShards(path string) (f *weights.File, err error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %w", path, fmt.Errorf(format, args...), weights.ErrFormat)
	}
	text, err := bounded.ReadFile(path, maxIndex)
	if errors.Is(err, bounded.ErrTooLarge) {
		return nil, fail("byte %d: %w", maxIndex, err)
	}
	if err != nil {
		return nil, err
	}
	var index shardIndex
	if err := json.Unmarshal(text, &index); err != nil {
		at := int64(0)
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		} else if errors.As(err, &kind) {
			at = kind.Offset
		}
		return nil, fail("byte %d: %w", at, jsonerror.Explain(text, err))
	}
	if len(index.Files) == 0 {
		return nil, fail("byte 0: index has no weight_map, want the files of tensors by their names")
	}
	var tensors []weights.Tensor
	var opened []*weights.File
	defer func() {
		if err != nil {
			for _, s := range opened {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	metadata, format := make(map[string]string), ""
	names := slices.Compact(slices.Sorted(maps.Values(index.Files)))
	for _, name := range names {
		if name != filepath.Base(name) || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return nil, fail("weight_map names the file %s, want one beside the index", weights.Quote(name))
		}
		if strings.HasSuffix(name, indexSuffix) {
			return nil, fail("weight_map names the index %s", weights.Quote(name))
		}
		s, err := OpenTensors(filepath.Join(filepath.Dir(path), name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fail("shard %s is missing: %w", weights.Quote(name), err)
		} else if err != nil {
			return nil, err
		}
		opened = append(opened, s)
		maps.Copy(metadata, s.Metadata())
		format = s.Format()
		for _, t := range s.Tensors() {
			if index.Files[t.Name] != name {
				return nil, t.Part().Errorf(t.Offset(), "tensor %s is here, and the index has it in file %s", weights.Quote(t.Name),
					weights.Quote(index.Files[t.Name]))
			}
			tensors = append(tensors, t)
		}
	}
	if len(tensors) != len(index.Files) {
		for _, name := range slices.Sorted(maps.Keys(index.Files)) {
			if !slices.ContainsFunc(tensors, func(t weights.Tensor) bool { return t.Name == name }) {
				return nil, fail("tensor %s is not in %s", weights.Quote(name), weights.Quote(index.Files[name]))
			}
		}
	}
	return weights.Join(path, fmt.Sprintf("%s, %d shards", format, len(names)), tensors, metadata, opened...)
}
