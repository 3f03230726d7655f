package huggingface

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/tensorflow"
	"harness.invalid/core/internal/reference"
)

// TestTensorFlowRoundTrip: a checkpoint that TensorFlow wrote, with optimizer slots, through Hugging Face's folder
// and back: the same bytes.
func TestTensorFlowRoundTrip(t *testing.T) {
	from := reference.PathOrExcerpt(t, "data", "weights", "keras-bert-tf-ckpt")
	for _, format := range []Format{Safetensors, PyTorch} {
		there, rep := convert(t, from, Target{Format: format})
		if diff := cmp.Diff(Report{}, rep); diff != "" {
			t.Error(diff)
		}
		back, _ := convert(t, there, Target{Format: TensorFlow})
		want, got := tree(t, from), tree(t, back)
		for _, name := range []string{"bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "vocab.txt"} {
			// Its vocab.txt has no line break at the end, and is copied.
			if got[name] != want[name] {
				t.Errorf("through %s: %s differs", format, name)
			}
		}
		var a, b any
		if err := errors.Join(json.Unmarshal([]byte(want[googleConfigFile]), &a), json.Unmarshal([]byte(got[googleConfigFile]), &b)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("through %s: %s", format, diff)
		}
	}
}

// TestTensorFlow reads the same checkpoint as a model: kernels are transposed, slots are found, "gelu" is tanh.
func TestTensorFlow(t *testing.T) {
	dir := reference.PathOrExcerpt(t, "data", "weights", "keras-bert-tf-ckpt")
	for _, path := range []string{dir, filepath.Join(dir, "bert_model.ckpt"), filepath.Join(dir, "bert_model.ckpt.index")} {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Config.Model.HiddenAct != bert.GELUNew || f.Config.Model.NumHiddenLayers != 2 {
			t.Errorf("config is %+v", f.Config.Model)
		}
		l, err := bert.Parameters(f.Config.Model, bert.Head{Task: bert.Pretraining})
		if err != nil {
			t.Fatal(err)
		}
		params := make([]float32, l.Len())
		rep, err := f.Load(l, params)
		if diff := cmp.Diff(Report{}, rep); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		raw, err := tensorflow.Open(path)
		if path == dir {
			raw, err = tensorflow.Open(filepath.Join(dir, "bert_model.ckpt"))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		check := func(section []float32, parameter, variable string, transposed bool) {
			t.Helper()
			p, _ := l.Lookup(parameter)
			want, err := raw.Float32s(variable)
			if err != nil {
				t.Fatal(err)
			}
			got := p.Of(section)
			for i := range got {
				j := i
				if transposed {
					j = i%p.Shape[1]*p.Shape[0] + i/p.Shape[1]
				}
				if got[i] != want[j] {
					t.Fatalf("%s: element %d is %g, want %g", parameter, i, got[i], want[j])
				}
			}
		}
		check(params, "bert.encoder.layer.1.intermediate.dense.weight", "bert/encoder/layer_1/intermediate/dense/kernel", true)
		check(params, "bert.embeddings.word_embeddings.weight", "bert/embeddings/word_embeddings", false)
		check(params, "cls.seq_relationship.weight", "cls/seq_relationship/output_weights", false)
		check(params, "cls.predictions.transform.LayerNorm.bias", "cls/predictions/transform/LayerNorm/beta", false)
		if !slices.Equal(f.Slots(), []string{"m", "v"}) {
			t.Errorf("slots are %v", f.Slots())
		}
		slot := make([]float32, l.Len())
		if rep, err := f.LoadSlot("v", l, slot); err != nil || len(rep.Missing) > 0 {
			t.Errorf("%v %v", rep, err)
		}
		check(slot, "bert.encoder.layer.0.output.dense.weight", "bert/encoder/layer_0/output/dense/kernel/adam_v", true)
	}
}

// TestNames: every parameter has a variable of its own in TensorFlow, and the other way round.
func TestNames(t *testing.T) {
	c, _, _ := model(t, bert.Head{Task: bert.Pretraining})
	c.Model.NumHiddenLayers = 12
	seen := make(map[string]string)
	for _, h := range []bert.Head{{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}, {Task: bert.Classification, Labels: 2}} {
		l, err := bert.Parameters(c.Model, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range l.Tensors() {
			variable, transposed := toTensorFlow(p.Name)
			if other := seen[variable]; other != "" && other != p.Name {
				t.Errorf("%s and %s both are %s", other, p.Name, variable)
			}
			seen[variable] = p.Name
			for slot, suffix := range map[string]string{"": "", "m": "/adam_m", "v": "/adam_v"} {
				back, s, tr, ok := fromTensorFlow(variable + suffix)
				if !ok || back != p.Name || s != slot || tr != transposed {
					t.Errorf("%s is %s there, which is %s, slot %q here", p.Name, variable+suffix, back, s)
				}
			}
		}
	}
	for parameter, variable := range map[string]string{ // google-research/bert, modeling.py
		"bert.embeddings.word_embeddings.weight":            "bert/embeddings/word_embeddings",
		"bert.embeddings.LayerNorm.weight":                  "bert/embeddings/LayerNorm/gamma",
		"bert.encoder.layer.11.attention.self.query.weight": "bert/encoder/layer_11/attention/self/query/kernel",
		"bert.encoder.layer.11.attention.output.dense.bias": "bert/encoder/layer_11/attention/output/dense/bias",
		"bert.encoder.layer.11.output.LayerNorm.bias":       "bert/encoder/layer_11/output/LayerNorm/beta",
		"cls.predictions.transform.dense.weight":            "cls/predictions/transform/dense/kernel",
		"cls.predictions.bias":                              "cls/predictions/output_bias",
		"qa_outputs.weight":                                 "cls/squad/output_weights",
		"classifier.bias":                                   "output_bias",
	} {
		if got, _ := toTensorFlow(parameter); got != variable {
			t.Errorf("%s is %s there, want %s", parameter, got, variable)
		}
	}
}
