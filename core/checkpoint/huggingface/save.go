package huggingface

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/durable"
	"harness.invalid/core/tensor"
)

// dtypes are the types that parameters can be stored in, with transformers' names for them.
var dtypes = map[tensor.DType]string{tensor.F32: "float32", tensor.F16: "float16", tensor.BF16: "bfloat16"}

// Save writes config.json and model.safetensors into a folder, which it creates if needed. Parameters are stored as
// dtype: F32, F16 or BF16, rounded to the nearest. The tied decoder is not stored twice; transformers ties it
// again. Tokenizer.Save adds the vocabulary.
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
		return fail(errors.New("the layout does not belong to the configuration and the head"))
	}
	config, err := c.marshal(architectures[h.Task], labels(h), dtypes[dtype])
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fail(err)
	}
	if err := unseal(dir); err != nil {
		return fail(err)
	}
	var contents []weights.Content
	for _, t := range l.Tensors() {
		contents = append(contents, weights.Of(t.Name, t.Shape, t.Of(params)).As(dtype))
	}
	if err := saveTensors(dir, contents, 0); err != nil {
		return fail(err)
	}
	if err := saveFile(filepath.Join(dir, configFile), config); err != nil {
		return fail(err)
	}
	return nil
}

// modelMetadata is required by transformers in every safetensors file.
var modelMetadata = map[string]string{"format": "pt"}

// saveTensors writes model.safetensors, or shards of at most limit bytes with an index; 0 is no limit. It removes
// files of the other form, which loaders might prefer.
func saveTensors(dir string, contents []weights.Content, shardBytes int64) error {
	shards, err := shard(contents, shardBytes)
	if err != nil {
		return err
	}
	single, index := filepath.Join(dir, modelFile), filepath.Join(dir, modelFile+indexSuffix)
	stale, err := filepath.Glob(filepath.Join(escape(dir), "model-?????-of-?????.safetensors"))
	if err != nil {
		return err
	}
	if len(shards) == 1 {
		if err := safetensors.Write(single, contents, modelMetadata); err != nil {
			return err
		}
		return removeAll(append(stale, index))
	}
	files, total := make(weightMap), int64(0)
	for i, s := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		if err := safetensors.Write(filepath.Join(dir, name), s, modelMetadata); err != nil {
			return err
		}
		stale = slices.DeleteFunc(stale, func(path string) bool { return filepath.Base(path) == name })
		for _, c := range s {
			files[c.Name] = name
			n, err := c.Check()
			if err != nil {
				return err
			}
			total += n
		}
	}
	text, err := json.MarshalIndent(shardIndex{map[string]any{"total_size": total}, files}, "", "  ")
	if err != nil {
		return err
	}
	if err := saveFile(index, append(text, '\n')); err != nil {
		return err
	}
	return removeAll(append(stale, single))
}

// shard cuts contents, in order, into pieces of at most limit bytes. A larger tensor becomes a piece of its own.
func shard(contents []weights.Content, limit int64) ([][]weights.Content, error) {
	shards, size := make([][]weights.Content, 1), int64(0)
	for _, c := range contents {
		n, err := c.Check()
		if err != nil {
			return nil, err
		}
		last := len(shards) - 1
		if limit > 0 && len(shards[last]) > 0 && size+n > limit {
			shards, size = append(shards, nil), 0
			last++
		}
		shards[last] = append(shards[last], c)
		size += n
	}
	return slices.Clip(shards), nil
}

func saveFile(path string, text []byte) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// removeAll removes files, if they are there.
func removeAll(paths []string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
