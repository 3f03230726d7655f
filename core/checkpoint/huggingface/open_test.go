package huggingface

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/tensorflow"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// TestLargeOpens: BERT-Large, 1.3 GB, is mapped and not read. The file is sparse, so it takes no room.
func TestLargeOpens(t *testing.T) {
	model, err := bert.Defaults().Size("large")
	if err != nil {
		t.Fatal(err)
	}
	head := bert.Head{Task: bert.Pretraining}
	l, err := bert.Parameters(model, head)
	if err != nil {
		t.Fatal(err)
	}
	header, size := make(map[string]any), int64(0)
	for _, p := range l.Tensors() {
		n := int64(4 * p.Len())
		header[p.Name] = map[string]any{"dtype": "F32", "shape": p.Shape, "data_offsets": []int64{size, size + n}}
		size += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, modelFile)
	length := []byte{byte(len(text)), byte(len(text) >> 8), byte(len(text) >> 16), 0, 0, 0, 0, 0}
	if err := os.WriteFile(path, append(length, text...), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(8+len(text))+size); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	config, err := Config{Model: model}.marshal("BertForPreTraining", 0, "float32")
	if err != nil {
		t.Fatal(err)
	}
	if err := saveFile(filepath.Join(dir, configFile), config); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f, err := Open(dir)
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes open in %v with %d bytes of memory", size, took, after.TotalAlloc-before.TotalAlloc)
	if runtime.GOOS == "linux" && after.TotalAlloc-before.TotalAlloc > 8<<20 {
		t.Errorf("%d bytes of memory were taken", after.TotalAlloc-before.TotalAlloc)
	}
	if len(f.parameters) != len(l.Tensors()) {
		t.Errorf("%d parameters, want %d", len(f.parameters), len(l.Tensors()))
	}
}

// TestOpenTensors: files are told apart by what they hold, not by their names.
func TestOpenTensors(t *testing.T) {
	from := saved(t, bert.Head{Task: bert.QuestionAnswering}, tensor.F32)
	dir := t.TempDir()
	f, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, format := range map[string]Format{"a": Safetensors, "b": PyTorch, "c": TensorFlow} {
		path := filepath.Join(dir, name)
		if _, err := f.WriteFile(path, Target{Format: format}); err != nil {
			t.Fatal(err)
		}
		g, err := OpenTensors(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[Format]string{Safetensors: "safetensors", PyTorch: "pytorch zip",
			TensorFlow: "tensorflow checkpoint"}[format]; g.Format() != want {
			t.Errorf("format is %s, want %s", g.Format(), want)
		}
		g.Close()
	}
	if g, err := OpenTensors("../pytorch/testdata/training.legacy.bin"); err != nil || g.Format() != "pytorch pickle" {
		t.Errorf("%v", err)
	} else {
		g.Close()
	}
	for name, text := range map[string]string{"empty": "", "short": "PK", "text": "hello, world", "zeros": strings.Repeat("\x00", 100),
		"cut.safetensors": "\x10"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenTensors(path); !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), path+": byte ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if _, err := OpenTensors(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
	// A folder with several checkpoints of a training.
	for _, n := range []int{100, 200} {
		if err := tensorflow.Write(filepath.Join(dir, fmt.Sprintf("model.ckpt-%d", n)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenTensors(dir); err == nil || !strings.Contains(err.Error(),
		"holds 2 TensorFlow checkpoints: name one, such as "+filepath.Join(dir, "model.ckpt-200")) {
		t.Errorf("error is %v", err)
	}
	if g, err := OpenTensors(filepath.Join(dir, "model.ckpt-100")); err != nil {
		t.Error(err)
	} else {
		g.Close()
	}
}

// TestTwice: a parameter that a file has under two names is an error that tells both.
func TestTwice(t *testing.T) {
	dir := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	rewrite(t, dir, func(name string) []string { return []string{name} },
		weights.Of("bert.embeddings.LayerNorm.gamma", tensor.Shape{6}, make([]float32, 6)))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(),
		`"bert.embeddings.LayerNorm.gamma" and "bert.embeddings.LayerNorm.weight" are both bert.embeddings.LayerNorm.weight`) &&
		!strings.Contains(err.Error(), `"bert.embeddings.LayerNorm.weight" and "bert.embeddings.LayerNorm.gamma" both are`) {
		t.Errorf("error is %v", err)
	}
}

// TestOptimizer: slots beside a model are read, and those of another model are refused.
func TestOptimizer(t *testing.T) {
	dir := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	_, l, params := model(t, bert.Head{Task: bert.Pretraining})
	var contents []weights.Content
	for _, p := range l.Tensors() {
		contents = append(contents, weights.Of("m/"+p.Name, p.Shape, p.Of(params)))
	}
	if err := safetensors.Write(filepath.Join(dir, optimizerFile), append(contents, weights.Of("lr", nil, []float32{1}),
		weights.Of(step, nil, []int64{7})), nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	slot := make([]float32, l.Len())
	rep, err := f.LoadSlot("m", l, slot)
	if err != nil || len(rep.Missing) > 0 || len(rep.Unexpected) != 1 || rep.Unexpected[0] != "lr" {
		t.Errorf("%+v, %v", rep, err)
	}
	for i := range slot {
		if slot[i] != params[i] {
			t.Fatalf("element %d is %g, want %g", i, slot[i], params[i])
		}
	}
	if _, err := f.LoadSlot("v", l, slot); err == nil || !strings.Contains(err.Error(), "holds no slot v, but [m]") {
		t.Errorf("error is %v", err)
	}
	there, _ := convert(t, dir, Target{Format: TensorFlow})
	g, err := tensorflow.Open(filepath.Join(there, checkpointName))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if n, err := g.Int64s(step); err != nil || n[0] != 7 {
		t.Errorf("global_step is %v, %v", n, err)
	}
	if _, ok := g.Tensor("bert/pooler/dense/kernel/adam_m"); !ok {
		t.Errorf("tensors are %v", g.Names())
	}
}

// FuzzConfig and FuzzIndex: no JSON makes the readers panic.
func FuzzConfig(f *testing.F) {
	f.Add(`{"model_type": "bert", "vocab_size": 100, "id2label": {"0": "a"}, "classifier_dropout": null}`)
	f.Add(`{"hidden_act": "gelu_new", "architectures": ["BertModel"], "num_labels": 3}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig([]byte(text))
		if err != nil {
			return
		}
		out, err := c.marshal("BertModel", c.Labels%8, "float32")
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseConfig(out)
		if err != nil || again.Model != c.Model {
			t.Errorf("%s is written as %s: %v", text, out, err)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add(`{"metadata": {"total_size": 8}, "weight_map": {"a": "a.safetensors"}}`)
	f.Add(`{"weight_map": {"a": "../b"}}`)
	f.Add(`{"weight_map": {"a": "` + modelFile + indexSuffix + `"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		path := filepath.Join(dir, modelFile+indexSuffix)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := safetensors.Write(filepath.Join(dir, "a.safetensors"),
			[]weights.Content{weights.Of("a", tensor.Shape{2}, []float32{1, 2})}, nil); err != nil {
			t.Fatal(err)
		}
		if file, err := OpenTensors(path); err == nil {
			if values, err := file.Float32s("a"); err != nil || len(values) != 2 {
				t.Errorf("%v, %v", values, err)
			}
			file.Close()
		}
	})
}
