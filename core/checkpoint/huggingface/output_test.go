package huggingface

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/pytorch"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/tensorflow"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// TestConvertTypes: parameters in another type are rounded, and what does not fit in FP16 is an error that leaves
// nothing.
func TestConvertTypes(t *testing.T) {
	from := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	direct := saved(t, bert.Head{Task: bert.Pretraining}, tensor.BF16)
	there, _ := convert(t, from, Target{Format: Safetensors, DType: tensor.BF16})
	sameTree(t, "FP32 as BF16", direct, there)
	back, _ := convert(t, there, Target{Format: Safetensors, DType: tensor.F32})
	if x, y := tree(t, back)[configFile], tree(t, from)[configFile]; x != y {
		t.Errorf("config is %s, want %s", x, y)
	}
	rewrite(t, from, func(name string) []string { return []string{name} })
	path := filepath.Join(from, modelFile)
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var contents []weights.Content
	for _, info := range f.Tensors() {
		values, err := info.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		if info.Name == "bert.pooler.dense.bias" {
			values[2] = -65520
		}
		contents = append(contents, weights.Of(info.Name, info.Shape, values))
	}
	if err := errors.Join(f.Close(), safetensors.Write(path, contents, nil)); err != nil {
		t.Fatal(err)
	}
	model, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	dir := filepath.Join(t.TempDir(), "half")
	if _, err := model.Write(dir, Target{Format: Safetensors, DType: tensor.F16}); err == nil ||
		!strings.Contains(err.Error(), "bert.pooler.dense.bias holds -65520, which FP16 can't") {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, modelFile)); err == nil {
		t.Error("a model was left")
	}
}

// TestArchitectures: what each class of transformers has no use for is left out and told, and what it needs must be
// there.
func TestArchitectures(t *testing.T) {
	add := func(dir string, more ...weights.Content) {
		rewrite(t, dir, func(name string) []string { return []string{name} }, more...)
	}
	architecture := func(dir string) string {
		var c struct {
			Architectures []string `json:"architectures"`
		}
		if err := json.Unmarshal([]byte(tree(t, dir)[configFile]), &c); err != nil || len(c.Architectures) != 1 {
			t.Fatalf("%v, %v", c, err)
		}
		return c.Architectures[0]
	}
	// A question answering model of NVIDIA's or Google's has a pooler.
	dir := saved(t, bert.Head{Task: bert.QuestionAnswering}, tensor.F32)
	add(dir, weights.Of("bert.pooler.dense_act.weight", tensor.Shape{6, 6}, make([]float32, 36)),
		weights.Of("bert.pooler.dense_act.bias", tensor.Shape{6}, make([]float32, 6)))
	there, rep := convert(t, dir, Target{Format: Safetensors})
	if want := []string{"bert.pooler.dense_act.bias", "bert.pooler.dense_act.weight"}; !slices.Equal(rep.Unexpected, want) ||
		architecture(there) != "BertForQuestionAnswering" {
		t.Errorf("%s, %+v, want the pooler left out", architecture(there), rep)
	}
	there, rep = convert(t, dir, Target{Format: TensorFlow})
	if f, err := tensorflow.Open(filepath.Join(there, checkpointName)); err != nil || len(rep.Unexpected) > 0 ||
		!slices.Contains(f.Names(), "bert/pooler/dense/kernel") {
		t.Errorf("%+v, %v, want the pooler, which Google's model always has", rep, err)
	}
	// An encoder alone is saved without the prefix.
	dir = saved(t, bert.Head{Task: bert.Classification, Labels: 2}, tensor.F32)
	rewrite(t, dir, func(name string) []string {
		if strings.HasPrefix(name, "bert.") {
			return []string{name}
		}
		return nil
	})
	there, _ = convert(t, dir, Target{Format: Safetensors})
	f, err := safetensors.Open(filepath.Join(there, modelFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, ok := f.Tensor("embeddings.word_embeddings.weight"); !ok || architecture(there) != "BertModel" {
		t.Errorf("%s, %v, want an encoder alone", architecture(there), f.Names())
	}
	// The masked LM alone.
	dir = saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	rewrite(t, dir, func(name string) []string {
		if strings.HasPrefix(name, "cls.seq_relationship.") || strings.HasPrefix(name, "bert.pooler.") {
			return nil
		}
		return []string{name}
	})
	if there, _ = convert(t, dir, Target{Format: Safetensors}); architecture(there) != "BertForMaskedLM" {
		t.Errorf("architecture is %s", architecture(there))
	}
	rewrite(t, dir, func(name string) []string {
		if strings.HasPrefix(name, "bert.encoder.layer.1.output") {
			return nil
		}
		return []string{name}
	})
	broken, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	if _, err := broken.Write(t.TempDir(), Target{Format: Safetensors}); err == nil ||
		!strings.Contains(err.Error(), "as a BertForMaskedLM with 2 layers it lacks bert.encoder.layer.1.output.LayerNorm.bias") {
		t.Errorf("error is %v", err)
	}
}

// TestClasses: a folder holds what its class of transformers stores, no tensor more and none fewer, so that loading
// it tells of none that is new or unused. The names are those of modeling_bert.py; what is tied
// (_tied_weights_keys) is stored once.
func TestClasses(t *testing.T) {
	linear := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, name+".weight", name+".bias")
		}
		return all
	}
	encoder := append(linear("bert.embeddings.LayerNorm"), "bert.embeddings.word_embeddings.weight",
		"bert.embeddings.position_embeddings.weight", "bert.embeddings.token_type_embeddings.weight")
	for _, layer := range []string{"bert.encoder.layer.0.", "bert.encoder.layer.1."} {
		for _, part := range []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
			"attention.output.LayerNorm",
			"intermediate.dense", "output.dense", "output.LayerNorm"} {
			encoder = append(encoder, linear(layer+part)...)
		}
	}
	pooler, classifier, next := linear("bert.pooler.dense"), linear("classifier"), linear("cls.seq_relationship")
	words := append(linear("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"), "cls.predictions.bias")
	for class, test := range map[string]struct {
		head bert.Head // whose folder the tensors are taken from
		want []string
	}{
		"BertForPreTraining":            {bert.Head{Task: bert.Pretraining}, slices.Concat(encoder, pooler, words, next)},
		"BertForMaskedLM":               {bert.Head{Task: bert.Pretraining}, slices.Concat(encoder, words)},
		"BertForNextSentencePrediction": {bert.Head{Task: bert.Pretraining}, slices.Concat(encoder, pooler, next)},
		"BertForQuestionAnswering":      {bert.Head{Task: bert.QuestionAnswering}, slices.Concat(encoder, linear("qa_outputs"))},
		"BertForSequenceClassification": {bert.Head{Task: bert.Classification, Labels: 3}, slices.Concat(encoder, pooler, classifier)},
		"BertForMultipleChoice":         {bert.Head{Task: bert.MultipleChoice, Labels: 4}, slices.Concat(encoder, pooler, classifier)},
		"BertForTokenClassification":    {bert.Head{Task: bert.TokenClassification, Labels: 3}, slices.Concat(encoder, classifier)},
		"BertModel":                     {bert.Head{Task: bert.Pretraining}, slices.Concat(encoder, pooler)},
	} {
		from := saved(t, test.head, tensor.F32)
		rewrite(t, from, func(name string) []string {
			if slices.Contains(test.want, name) {
				return []string{name}
			}
			return nil
		})
		dir, rep := convert(t, from, Target{Format: Safetensors})
		if diff := cmp.Diff(Report{}, rep); diff != "" {
			t.Errorf("%s: %s", class, diff)
		}
		f, err := safetensors.Open(filepath.Join(dir, modelFile))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := slices.Sorted(slices.Values(test.want))
		if class == "BertModel" {
			for i := range want {
				want[i] = strings.TrimPrefix(want[i], "bert.")
			}
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(f.Names()))); diff != "" {
			t.Errorf("%s: %s", class, diff)
		}
		var c struct {
			Architectures []string          `json:"architectures"`
			Labels        map[string]string `json:"id2label"`
		}
		if err := json.Unmarshal([]byte(tree(t, dir)[configFile]), &c); err != nil || !slices.Equal(c.Architectures, []string{class}) {
			t.Errorf("%s: %v, %v", class, c.Architectures, err)
		}
		if labels := slices.Contains([]string{"BertForSequenceClassification", "BertForTokenClassification"},
			class); labels != (len(c.Labels) == 3) || !labels && c.Labels != nil {
			t.Errorf("%s: labels are %v", class, c.Labels)
		}
	}
}

// TestPackedAttention: query, key and value in one matrix.
func TestPackedAttention(t *testing.T) {
	dir := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	want := tree(t, dir)[modelFile]
	f, err := safetensors.Open(filepath.Join(dir, modelFile))
	if err != nil {
		t.Fatal(err)
	}
	var fused []weights.Content
	for _, layer := range []string{"0", "1"} {
		for _, part := range []string{"weight", "bias"} {
			at := "bert.encoder.layer." + layer + ".attention.self."
			var values []float32
			var shape tensor.Shape
			for _, name := range []string{"query", "key", "value"} {
				info, _ := f.Tensor(at + name + "." + part)
				v, err := info.Float32s()
				if err != nil {
					t.Fatal(err)
				}
				values, shape = append(values, v...), info.Shape
			}
			fused = append(fused, weights.Of(at+"query_key_value."+part, append(tensor.Shape{3 * shape[0]}, shape[1:]...), values))
		}
	}
	f.Close()
	rewrite(t, dir, func(name string) []string {
		if strings.Contains(name, ".self.") {
			return nil
		}
		return []string{name}
	}, fused...)
	there, _ := convert(t, dir, Target{Format: Safetensors})
	if tree(t, there)[modelFile] != want {
		t.Error("the parts differ")
	}
}

// TestTrainingCheckpoint: a model under "model" in a file of torch.save, as NVIDIA's, with a vocabulary padded to a
// multiple of 8.
func TestTrainingCheckpoint(t *testing.T) {
	dir := t.TempDir()
	c, l, params := model(t, bert.Head{Task: bert.Pretraining})
	var contents []weights.Content
	for _, p := range l.Tensors() {
		content := weights.Of("model/module."+strings.Replace(p.Name, "intermediate.dense", "intermediate.dense_act", 1), p.Shape, p.Of(params))
		if tied[p.Name] != "" {
			content = content.Padded(32)
		}
		contents = append(contents, content)
	}
	contents = append(contents, weights.Of("optimizer/state/0/exp_avg", tensor.Shape{1}, []float32{1}))
	path := filepath.Join(dir, "ckpt_8601.pt")
	if err := pytorch.Write(path, contents, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "holds no config.json or bert_config.json") {
		t.Errorf("error is %v", err)
	}
	f, err := OpenWith(path, c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	to := filepath.Join(t.TempDir(), "out")
	rep, err := f.Write(to, Target{Format: Safetensors})
	want := Report{Unexpected: []string{"optimizer/state/0/exp_avg"}, Padded: []string{"bert.embeddings.word_embeddings.weight",
		"cls.predictions.bias"}}
	if diff := cmp.Diff(want, rep); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	direct := filepath.Join(t.TempDir(), "direct")
	if err := Save(direct, c, bert.Head{Task: bert.Pretraining}, l, params, tensor.F32); err != nil {
		t.Fatal(err)
	}
	sameTree(t, "from a training checkpoint", direct, to)
}
