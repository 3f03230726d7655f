package huggingface

import (
	"bytes"
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
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/tensor"
)

// tree is the contents of all files in a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// sameTree compares folders without printing megabytes.
func sameTree(t *testing.T, what, a, b string) {
	t.Helper()
	x, y := tree(t, a), tree(t, b)
	for name, text := range x {
		other, ok := y[name]
		if !ok {
			t.Errorf("%s: %s is not there", what, name)
		} else if text != other {
			t.Errorf("%s: %s differs: %d and %d bytes", what, name, len(text), len(other))
		}
		delete(y, name)
	}
	for name := range y {
		t.Errorf("%s: %s is too many", what, name)
	}
}

// convert opens a model, writes it as another folder and returns that.
func convert(t *testing.T, from string, target Target) (string, Report) {
	t.Helper()
	f, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := filepath.Join(t.TempDir(), string(target.Format))
	rep, err := f.Write(dir, target)
	if err != nil {
		t.Fatal(err)
	}
	return dir, rep
}

// saved is a model folder with a tokenizer, as another program would find it.
func saved(t *testing.T, h bert.Head, dtype tensor.DType) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	c, l, params := model(t, h)
	if err := Save(dir, c, h, l, params, dtype); err != nil {
		t.Fatal(err)
	}
	if err := (Tokenizer{Vocab: vocab(t), Options: huggingFaceOptions, MaxLength: 5}).Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

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

// TestTensorFlowRoundTrip: a checkpoint that TensorFlow wrote, with optimizer slots, through Hugging Face's folder
// and back: the same bytes.
func TestTensorFlowRoundTrip(t *testing.T) {
	from := reference.Path(t, "data", "weights", "keras-bert-tf-ckpt")
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
	dir := reference.Path(t, "data", "weights", "keras-bert-tf-ckpt")
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
		"BertForTokenClassification":    {bert.Head{Task: bert.Classification, Labels: 3}, slices.Concat(encoder, classifier)},
		"BertModel":                     {bert.Head{Task: bert.Pretraining}, slices.Concat(encoder, pooler)},
	} {
		from := saved(t, test.head, tensor.F32)
		rewrite(t, from, func(name string) []string {
			if slices.Contains(test.want, name) {
				return []string{name}
			}
			return nil
		})
		if class == "BertForTokenClassification" { // which no head of harness is
			text := strings.Replace(tree(t, from)[configFile], "BertForSequenceClassification", class, 1)
			if err := os.WriteFile(filepath.Join(from, configFile), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
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
