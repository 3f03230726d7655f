package huggingface

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/pytorch"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/sums"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// TestShards: a model in pieces with an index, written and read, and indexes that lie.
func TestShards(t *testing.T) {
	from := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	there, _ := convert(t, from, Target{Format: Safetensors, ShardBytes: 1000})
	shards, err := filepath.Glob(filepath.Join(there, "model-*-of-*.safetensors"))
	if err != nil || len(shards) < 3 {
		t.Fatalf("%v, %v, want shards", shards, err)
	}
	for _, s := range shards {
		f, err := safetensors.Open(s)
		if err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for _, info := range f.Tensors() {
			total += info.ByteLen()
		}
		if total > 1000 && len(f.Tensors()) > 1 || f.Metadata()["format"] != "pt" {
			t.Errorf("%s has %d bytes in %d tensors, metadata %v", s, total, len(f.Tensors()), f.Metadata())
		}
		f.Close()
	}
	back, _ := convert(t, there, Target{Format: Safetensors})
	sameTree(t, "through shards", from, back)

	index := filepath.Join(there, "model.safetensors.index.json")
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Metadata struct {
			TotalSize int64 `json:"total_size"`
		} `json:"metadata"`
		Files map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	_, l, _ := model(t, bert.Head{Task: bert.Pretraining})
	if want := int64(4 * l.Parameters()); parsed.Metadata.TotalSize != want || len(parsed.Files) != len(l.Tensors()) {
		t.Errorf("total_size is %d of %d tensors, want %d of %d", parsed.Metadata.TotalSize, len(parsed.Files), want, len(l.Tensors()))
	}
	// A stranger's folder has no sums.
	if err := os.Remove(filepath.Join(there, sums.File)); err != nil {
		t.Fatal(err)
	}
	first := filepath.Base(shards[0])
	for want, bad := range map[string]string{
		"want one beside the index": strings.Replace(string(text), first, "../"+first, 1),
		"is missing":                strings.ReplaceAll(string(text), first, "other.safetensors"),
		"has no weight_map":         `{"metadata": {}}`,
		"byte 0: file begins with":  strings.ReplaceAll(string(text), first, "vocab.txt"),
		"names the index":           strings.ReplaceAll(string(text), first, filepath.Base(index)),
		"byte 10":                   `{"weight_m`,
		"twice":                     `{"weight_map": {"a": "x", "a": "y"}}`,
		"weight_map is [], want":    `{"weight_map": []}`,
		`tensor "more" is not in`:   strings.Replace(string(text), `"weight_map": {`, `"weight_map": {"more": "`+first+`",`, 1),
		"and the index has it in":   strings.Replace(string(text), first, filepath.Base(shards[1]), 1),
	} {
		if err := os.WriteFile(index, []byte(bad), 0o666); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(there); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, weights.ErrFormat) {
			t.Errorf("error is %v, want %q in it", err, want)
			if err == nil {
				f.Close()
			}
		}
	}
}

// TestBinShards: pytorch_model.bin in pieces.
func TestBinShards(t *testing.T) {
	from := saved(t, bert.Head{Task: bert.QuestionAnswering}, tensor.F32)
	f, err := OpenTensors(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	files := make(weightMap)
	for i, name := range []string{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"} {
		var contents []weights.Content
		for j, info := range f.Tensors() {
			if j%2 == i {
				contents = append(contents, info.Content())
				files[info.Name] = name
			}
		}
		if err := pytorch.Write(filepath.Join(dir, name), contents, nil); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(shardIndex{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(saveFile(filepath.Join(dir, "pytorch_model.bin.index.json"), text),
		saveFile(filepath.Join(dir, configFile), []byte(tree(t, from)[configFile]))); err != nil {
		t.Fatal(err)
	}
	there, _ := convert(t, dir, Target{Format: Safetensors})
	if tree(t, there)[modelFile] != tree(t, from)[modelFile] {
		t.Error("the model differs")
	}
}
