package huggingface

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/tensor"
)

func model(t *testing.T, h bert.Head) (Config, *tensor.Layout, []float32) {
	t.Helper()
	c := Config{Model: bert.Config{VocabSize: 24, HiddenSize: 6, NumHiddenLayers: 2, NumAttentionHeads: 2, IntermediateSize: 8,
		HiddenAct: bert.GELUNew, HiddenDropoutProb: 0.1,
		MaxPositionEmbeddings: 5, TypeVocabSize: 2, InitializerRange: 0.02, LayerNormEps: 1e-12, AttentionMask: -10000}}
	l, err := bert.Parameters(c.Model, h)
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, l.Len())
	for i, p := range l.Tensors() {
		for j := range p.Of(params) {
			p.Of(params)[j] = float32(i+1) + float32(j)/1024
		}
	}
	return c, l, params
}

func TestSaveAndLoad(t *testing.T) {
	for _, head := range []bert.Head{{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}, {Task: bert.Classification, Labels: 3}} {
		dir := filepath.Join(t.TempDir(), "model")
		c, l, params := model(t, head)
		if err := Save(dir, c, head, l, params, tensor.F32); err != nil {
			t.Fatal(err)
		}
		f, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if diff := cmp.Diff(c.Model, f.Config.Model); diff != "" {
			t.Errorf("%s: %s", head.Task, diff)
		}
		if f.Config.Labels != head.Labels {
			t.Errorf("%s: %d labels, want %d", head.Task, f.Config.Labels, head.Labels)
		}
		read := make([]float32, l.Len())
		rep, err := f.Load(l, read)
		if diff := cmp.Diff(Report{}, rep); err != nil || diff != "" {
			t.Errorf("%s: %v %s", head.Task, err, diff)
		}
		if !slices.Equal(params, read) {
			t.Errorf("%s: parameters differ", head.Task)
		}
	}
}

// TestNarrow: half precision rounds to the nearest, with 11 and 8 bits.
func TestNarrow(t *testing.T) {
	head := bert.Head{Task: bert.Pretraining}
	c, l, params := model(t, head)
	for dtype, unit := range map[tensor.DType]float64{tensor.F16: 0x1p-11, tensor.BF16: 0x1p-8} {
		dir := t.TempDir()
		if err := Save(dir, c, head, l, params, dtype); err != nil {
			t.Fatal(err)
		}
		f, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		read := make([]float32, l.Len())
		if _, err := f.Load(l, read); err != nil {
			t.Fatal(err)
		}
		for i, v := range read {
			if math.Abs(float64(v-params[i])) > unit*math.Abs(float64(params[i])) {
				t.Errorf("%s: %g is read as %g", dtype, params[i], v)
				break
			}
		}
	}
}

// rewrite changes names and contents of a saved model.
func rewrite(t *testing.T, dir string, edit func(name string) []string, more ...weights.Content) {
	t.Helper()
	path := filepath.Join(dir, modelFile)
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	contents := more
	for _, info := range f.Tensors() {
		values, err := f.Float32s(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range edit(info.Name) {
			contents = append(contents, weights.Of(name, info.Shape, values))
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := safetensors.Write(path, contents, nil); err != nil {
		t.Fatal(err)
	}
}

// TestTolerances: files in the wild differ in known ways.
func TestTolerances(t *testing.T) {
	head := bert.Head{Task: bert.Pretraining}
	c, l, params := model(t, head)
	renamed := func(old, new string) func(string) []string {
		return func(name string) []string { return []string{strings.Replace(name, old, new, 1)} }
	}
	for name, test := range map[string]struct {
		edit func(string) []string
		more []weights.Content
		want Report
	}{
		"gamma and beta": {edit: func(name string) []string {
			name = strings.Replace(name, "LayerNorm.weight", "LayerNorm.gamma", 1)
			return []string{strings.Replace(name, "LayerNorm.bias", "LayerNorm.beta", 1)}
		}},
		"NVIDIA's dense_act": {edit: func(name string) []string {
			for _, part := range []string{"intermediate.", "pooler.", "transform."} {
				name = strings.Replace(name, part+"dense.", part+"dense_act.", 1)
			}
			return []string{name}
		}},
		"both tied names": {edit: func(name string) []string {
			if second := tied[name]; second != "" {
				return []string{name, second}
			}
			return []string{name}
		}},
		"the other tied names": {edit: func(name string) []string {
			if second := tied[name]; second != "" {
				return []string{second}
			}
			return []string{name}
		}},
		"old buffers": {edit: renamed("", ""),
			more: []weights.Content{weights.Of("bert.embeddings.position_ids", tensor.Shape{1, 5}, []int64{0, 1, 2, 3, 4})}},
		"something else": {edit: renamed("", ""), more: []weights.Content{weights.Of("global_step", nil, []int64{1})},
			want: Report{Unexpected: []string{"global_step"}}},
		"other decoder": {edit: renamed("", ""),
			more: []weights.Content{weights.Of("cls.predictions.decoder.bias", tensor.Shape{24},
				make([]float32, 24))}, want: Report{Unexpected: []string{"cls.predictions.decoder.bias"}}},
		"another head": {edit: renamed("cls.seq_relationship", "qa_outputs"),
			want: Report{Missing: []string{"cls.seq_relationship.weight", "cls.seq_relationship.bias"},
				Unexpected: []string{"qa_outputs.bias", "qa_outputs.weight"}}},
		"encoder alone": {edit: func(name string) []string {
			if rest, ok := strings.CutPrefix(name, "bert."); ok {
				return []string{rest}
			}
			return nil
		}, more: []weights.Content{weights.Of("embeddings.position_ids", tensor.Shape{1}, []int64{0})},
			want: Report{Missing: []string{"cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias",
				"cls.predictions.transform.LayerNorm.weight",
				"cls.predictions.transform.LayerNorm.bias", "cls.predictions.bias", "cls.seq_relationship.weight", "cls.seq_relationship.bias"}}},
	} {
		dir := t.TempDir()
		if err := Save(dir, c, head, l, params, tensor.F32); err != nil {
			t.Fatal(err)
		}
		rewrite(t, dir, test.edit, test.more...)
		f, err := Open(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer f.Close()
		read := make([]float32, l.Len())
		rep, err := f.Load(l, read)
		if diff := cmp.Diff(test.want, rep); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		for _, p := range l.Tensors() {
			want := p.Of(params)
			if slices.Contains(rep.Missing, p.Name) {
				want = make([]float32, p.Len())
			}
			if !slices.Equal(p.Of(read), want) {
				t.Errorf("%s: %s differs", name, p.Name)
			}
		}
	}
}

// TestPaddedVocabulary: NVIDIA's 30528 rows for a vocabulary of 30522, and the other way round.
func TestPaddedVocabulary(t *testing.T) {
	head := bert.Head{Task: bert.Pretraining}
	c, l, params := model(t, head)
	dir := t.TempDir()
	if err := Save(dir, c, head, l, params, tensor.F32); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{22, 30} {
		other := c.Model
		other.VocabSize = size
		layout, err := bert.Parameters(other, head)
		if err != nil {
			t.Fatal(err)
		}
		read := slices.Repeat([]float32{9}, layout.Len())
		rep, err := f.Load(layout, read)
		want := Report{Padded: []string{"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"}}
		if diff := cmp.Diff(want, rep); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		stored, _ := l.Lookup("bert.embeddings.word_embeddings.weight")
		loaded, _ := layout.Lookup(stored.Name)
		n := min(stored.Len(), loaded.Len())
		if !slices.Equal(loaded.Of(read)[:n], stored.Of(params)[:n]) || slices.ContainsFunc(loaded.Of(read)[n:],
			func(v float32) bool { return v != 0 }) {
			t.Errorf("vocabulary of %d: word embeddings are not those of the file and then zeros", size)
		}
	}
	other := c.Model
	other.VocabSize = 24 + maxPadding
	layout, err := bert.Parameters(other, head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load(layout, make([]float32, layout.Len())); err == nil ||
		!strings.Contains(err.Error(), "has shape [24 6], want [152 6]") {
		t.Errorf("error is %v, want that the shapes differ", err)
	}
}

func TestConfig(t *testing.T) {
	parse := func(text string) (Config, error) { return parseConfig([]byte(text)) }
	// Defaults are transformers', not google-research/bert's.
	c, err := parse(`{"model_type": "bert", "vocab_size": 100, "classifier_dropout": null, "hidden_dropout_prob": null}`)
	if err != nil || c.Model.HiddenAct != bert.GELU || c.Model.VocabSize != 100 || c.Model.HiddenSize != 768 ||
		c.Model.HiddenDropoutProb != 0.1 {
		t.Errorf("config is %+v, %v", c.Model, err)
	}
	for name, want := range map[string]bert.Activation{"gelu": bert.GELU, "gelu_new": bert.GELUNew, "gelu_pytorch_tanh": bert.GELUNew} {
		if c, err := parse(`{"hidden_act": "` + name + `"}`); err != nil || c.Model.HiddenAct != want {
			t.Errorf("hidden_act %s is %s, %v, want %s", name, c.Model.HiddenAct, err, want)
		}
	}
	if c, err := parse(`{"id2label": {"0": "a", "1": "b", "2": "c"}}`); err != nil || c.Labels != 3 {
		t.Errorf("%d labels, %v, want 3", c.Labels, err)
	}
	for text, want := range map[string]string{
		`{"model_type": "roberta"}`:                   `model_type is "roberta", want bert`,
		`{"position_embedding_type": "relative_key"}`: `position_embedding_type is "relative_key", want absolute`,
		`{"is_decoder": true}`:                        `is_decoder is true, want false`,
		`{"tie_word_embeddings": false}`:              `tie_word_embeddings is false`,
		`{"hidden_act": "relu"}`:                      `hidden_act is "relu", want one of [gelu`,
		`{"hidden_size": "many"}`:                     `hidden_size`,
		`{"hidden_size": 7}`:                          `not a multiple`,
		`{"num_labels": "x"}`:                         `num_labels is "x"`,
		`{"id2label": [1]}`:                           `id2label`,
		`null`:                                        `want an object`,
		`[`:                                           `ends in the middle of the JSON`,
		`{"layer_norm_eps": 0}`:                       `layer_norm_eps`,
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", text, err, want)
		}
	}
}

// TestConfigIsKept: keys that harness does not know survive, and its own key shows only where it matters.
func TestConfigIsKept(t *testing.T) {
	c, err := parseConfig([]byte(`{
		"vocab_size": 30, "pad_token_id": 0, "transformers_version": "4.6.0",
		"id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1}, "nested": {"b": [1, 2.50]}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.marshal("BertForSequenceClassification", 2, "float32")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"pad_token_id": "0", "transformers_version": `"4.6.0"`,
		"id2label": `{"0":"no","1":"yes"}`, "nested": `{"b":[1,2.50]}`,
		"architectures": `["BertForSequenceClassification"]`, "hidden_act": `"gelu"`, "layer_norm_eps": "1e-12", "attention_mask_value": ""} {
		if got := strings.Join(strings.Fields(string(fields[key])), ""); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	c.Model.AttentionMask = -1000
	if text, err = c.marshal("BertForPreTraining", 0, "float32"); err != nil ||
		!strings.Contains(string(text), `"attention_mask_value": -1000`) {
		t.Errorf("%s, %v, want attention_mask_value in it", text, err)
	}
	again, err := parseConfig(text)
	if diff := cmp.Diff(c.Model, again.Model); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestSaveRefuses(t *testing.T) {
	head := bert.Head{Task: bert.Pretraining}
	c, l, params := model(t, head)
	dir := t.TempDir()
	if err := Save(dir, c, head, l, params, tensor.I64); err == nil || !strings.Contains(err.Error(), "want F32, F16 or BF16") {
		t.Errorf("error is %v", err)
	}
	if err := Save(dir, c, bert.Head{Task: bert.QuestionAnswering}, l, params, tensor.F32); err == nil ||
		!strings.Contains(err.Error(), "the layout does not belong to") {
		t.Errorf("error is %v", err)
	}
	if err := Save(dir, c, head, l, params[1:], tensor.F32); err == nil {
		t.Error("a section that is too short is taken")
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("%v was left", entries)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("error is %v, want that there is no config.json", err)
	}
}

// TestTribuo reads a model that another team converted: an encoder without a prefix and without heads.
func TestTribuo(t *testing.T) {
	dir := reference.Path(t, "golden", "bert", "tribuo-tinybert")
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if m := f.Config.Model; m.HiddenSize != 50 || m.NumHiddenLayers != 1 || m.VocabSize != 1656 || m.HiddenAct != bert.GELU {
		t.Errorf("config is %+v", m)
	}
	l, err := bert.Parameters(f.Config.Model, bert.Head{Task: bert.Classification, Labels: 2})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := f.Load(l, make([]float32, l.Len()))
	if diff := cmp.Diff(Report{Missing: []string{"classifier.weight", "classifier.bias"}}, rep); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
