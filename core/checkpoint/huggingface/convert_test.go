package huggingface

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// TestRoundTrips: a folder that is converted to any format and back has the same bytes in all of its files.
func TestRoundTrips(t *testing.T) {
	for name, test := range map[string]struct {
		head  bert.Head
		dtype tensor.DType
	}{
		"pretraining": {bert.Head{Task: bert.Pretraining}, tensor.F32}, "question answering": {bert.Head{Task: bert.QuestionAnswering},
			tensor.F16},
		"classification": {bert.Head{Task: bert.Classification, Labels: 3}, tensor.BF16},
	} {
		from := saved(t, test.head, test.dtype)
		for _, format := range []Format{Safetensors, PyTorch, TensorFlow} {
			there, rep := convert(t, from, Target{Format: format})
			if diff := cmp.Diff(Report{}, rep); diff != "" {
				t.Errorf("%s as %s: %s", name, format, diff)
			}
			back, _ := convert(t, there, Target{Format: Safetensors})
			what := name + " through " + string(format)
			if format != TensorFlow {
				sameTree(t, what, from, back)
				continue
			}
			// A bert_config.json says less, and a vocab.txt alone means Google's tokenizer; the tensors are the same.
			if x, y := tree(t, from), tree(t, back); x[modelFile] != y[modelFile] || x[vocabFile] != y[vocabFile] {
				t.Errorf("%s: files differ", what)
			}
			again, _ := convert(t, back, Target{Format: TensorFlow})
			sameTree(t, what+" twice", there, again)
		}
	}
}

// TestWriteRefuses: a folder with a model in another format stays as it is.
func TestWriteRefuses(t *testing.T) {
	from := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	f, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := tree(t, from)
	if _, err := f.Write(from, Target{Format: PyTorch}); err == nil || !strings.Contains(err.Error(),
		"holds a model in another format, model.safetensors") {
		t.Errorf("error is %v", err)
	}
	if diff := cmp.Diff(before, tree(t, from)); diff != "" {
		t.Error("the folder was changed")
	}
	// Onto itself: the mapped file is replaced, not overwritten.
	if _, err := f.Write(from, Target{Format: Safetensors}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, tree(t, from)); diff != "" {
		t.Error("a model that was written onto itself differs")
	}
}

// TestCopy: any tensors, as they are, to each format and back.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.safetensors")
	if err := safetensors.Write(path, []weights.Content{weights.Of("x/y", tensor.Shape{2}, []float32{1, 2}),
		weights.Of("ids", tensor.Shape{1}, []int64{3})}, modelMetadata); err != nil {
		t.Fatal(err)
	}
	copied := func(from, name string, target Target) string {
		t.Helper()
		f, err := OpenTensors(from)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		to := filepath.Join(dir, name)
		if err := Copy(f, to, target); err != nil {
			t.Fatal(err)
		}
		return to
	}
	for _, format := range []Format{Safetensors, PyTorch, TensorFlow} {
		copied(copied(path, "there", Target{Format: format}), "back", Target{Format: Safetensors})
		if files := tree(t, dir); files["back"] != files["a.safetensors"] {
			t.Errorf("through %s: the file differs", format)
		}
	}
	f, err := OpenTensors(copied(path, "half", Target{Format: Safetensors, DType: tensor.F16}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, _ := f.Tensor("x/y")
	ids, _ := f.Tensor("ids")
	if x.DType != tensor.F16 || ids.DType != tensor.I64 {
		t.Errorf("types are %s and %s, want F16 and I64", x.DType, ids.DType)
	}
}

// TestNotes: what a reader of the result should know.
func TestNotes(t *testing.T) {
	c, l, params := model(t, bert.Head{Task: bert.Pretraining})
	c.Model.HiddenAct = bert.GELU
	from := filepath.Join(t.TempDir(), "erf")
	if err := Save(from, c, bert.Head{Task: bert.Pretraining}, l, params, tensor.F32); err != nil {
		t.Fatal(err)
	}
	long := Tokenizer{Vocab: mustVocab(t, append(tokens(vocab(t)), "more")...), Options: huggingFaceOptions}
	_, rep := convert(t, from, Target{Format: TensorFlow, Tokenizer: &long})
	if len(rep.Notes) != 2 || !strings.Contains(rep.Notes[0], "erf form of GELU") ||
		!strings.Contains(rep.Notes[1], "has 25 entries and the model 24") {
		t.Errorf("notes are %q", rep.Notes)
	}
}

// TestWriteFile: the parameters alone, in each format.
func TestWriteFile(t *testing.T) {
	from := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	f, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	for name, format := range map[string]Format{"m.safetensors": Safetensors, "m.bin": PyTorch, "m.ckpt": TensorFlow} {
		path := filepath.Join(dir, name)
		if _, err := f.WriteFile(path, Target{Format: format}); err != nil {
			t.Fatal(err)
		}
		g, err := OpenTensors(path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if n := len(g.Tensors()); format == PyTorch && n != len(f.file.Tensors())+2 || format != PyTorch && n != len(f.file.Tensors()) {
			t.Errorf("%s: %d tensors", name, n)
		}
	}
	if x, err := os.ReadFile(filepath.Join(dir, "m.safetensors")); err != nil || !bytes.Equal(x, []byte(tree(t, from)[modelFile])) {
		t.Errorf("the file differs (%v)", err)
	}
}
