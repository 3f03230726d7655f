package bert_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// TestParameterCounts rebuilds the published numbers: BERT-Base with its pre-training heads has 110,106,428 parameters in transformers
// (BertForPreTraining), and the encoders of the smaller models have 4.4M, 11.3M, 29.1M and 41.7M (google-research/bert README, with pooler).
func TestParameterCounts(t *testing.T) {
	for size, want := range map[string]float64{"tiny": 4.4, "mini": 11.2, "small": 28.8, "medium": 41.4, "base": 109.5, "large": 335.1} {
		c, err := bert.Defaults().Size(size)
		if err != nil {
			t.Fatal(err)
		}
		l, err := bert.Parameters(c, bert.Head{Task: bert.Classification, Labels: 1})
		if err != nil {
			t.Fatal(err)
		}
		encoder := float64(l.Parameters()-c.HiddenSize-1) / 1e6
		if math.Abs(encoder-want) > 0.1 {
			t.Errorf("%s has %.2fM parameters, want %.1fM", size, encoder, want)
		}
	}
	l, err := bert.Parameters(bert.Defaults(), bert.Head{Task: bert.Pretraining})
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Parameters(); n != 110106428 {
		t.Errorf("BERT-Base for pre-training has %d parameters, want 110106428", n)
	}
	if _, err := bert.Defaults().Size("tini"); err == nil || !strings.Contains(err.Error(), "tiny") {
		t.Errorf("size tini: %v, want an error that lists the sizes", err)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := bert.Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	for key, spoil := range map[string]func(c *bert.Config){
		"vocab_size":                   func(c *bert.Config) { c.VocabSize = 0 },
		"hidden_size":                  func(c *bert.Config) { c.HiddenSize = 770 },
		"num_hidden_layers":            func(c *bert.Config) { c.NumHiddenLayers = 1 << 20 },
		"num_attention_heads":          func(c *bert.Config) { c.NumAttentionHeads = -1 },
		"hidden_act":                   func(c *bert.Config) { c.HiddenAct = "relu" },
		"hidden_dropout_prob":          func(c *bert.Config) { c.HiddenDropoutProb = 1 },
		"attention_probs_dropout_prob": func(c *bert.Config) { c.AttentionProbsDropoutProb = math.NaN() },
		"layer_norm_eps":               func(c *bert.Config) { c.LayerNormEps = 0 },
		"initializer_range":            func(c *bert.Config) { c.InitializerRange = 0 },
		"attention_mask_value":         func(c *bert.Config) { c.AttentionMask = 1 },
	} {
		c := bert.Defaults()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("a wrong %s gives %v, want an error that names it", key, err)
		}
	}
	for _, h := range []bert.Head{{}, {Task: "ranking"}, {Task: bert.Classification}, {Task: bert.MultipleChoice, Labels: 1}} {
		if err := h.Validate(); err == nil {
			t.Errorf("head %+v was taken", h)
		}
	}
}

// TestInitialize: a normal distribution cut at two standard deviations has 0.8796 of its standard deviation (google-research/bert: 0.02
// gives "about 0.0176"). 131,072 values estimate it within 1%.
func TestInitialize(t *testing.T) {
	c, err := bert.Defaults().Size("tiny")
	if err != nil {
		t.Fatal(err)
	}
	l, err := bert.Parameters(c, bert.Head{Task: bert.Pretraining})
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, l.Len())
	bert.Initialize(c, l, params, 1)
	for _, p := range l.Tensors() {
		values := p.Of(params)
		switch p.Kind {
		case tensor.NormScale:
			if slices.Min(values) != 1 || slices.Max(values) != 1 {
				t.Errorf("%s is not 1", p.Name)
			}
		case tensor.Bias, tensor.NormBias:
			if slices.Min(values) != 0 || slices.Max(values) != 0 {
				t.Errorf("%s is not 0", p.Name)
			}
		default:
			var sum, squares float64
			for _, v := range values {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			n := float64(len(values))
			sd := math.Sqrt(squares / n)
			if limit := 4 * 0.0176 / math.Sqrt(n); math.Abs(sum/n) > limit || math.Abs(sd-0.0176) > limit+1e-4 {
				t.Errorf("%s has mean %.2g and standard deviation %.4g, want 0 and 0.0176", p.Name, sum/n, sd)
			}
			if slices.Max(values) > 0.04 || slices.Min(values) < -0.04 {
				t.Errorf("%s has values beyond two standard deviations", p.Name)
			}
		}
	}
	// The encoder is the same under another head, and another one with another seed.
	other, err := bert.Parameters(c, bert.Head{Task: bert.QuestionAnswering})
	if err != nil {
		t.Fatal(err)
	}
	same, different := make([]float32, other.Len()), make([]float32, other.Len())
	bert.Initialize(c, other, same, 1)
	bert.Initialize(c, other, different, 2)
	name := "bert.encoder.layer.1.output.dense.weight"
	a, _ := l.Lookup(name)
	b, _ := other.Lookup(name)
	if !slices.Equal(a.Of(params), b.Of(same)) || slices.Equal(a.Of(params), b.Of(different)) {
		t.Error("initial values are not a function of seed and name")
	}
}

// TestKindOf: the kinds of all parameters follow from their names.
func TestKindOf(t *testing.T) {
	for _, h := range []bert.Head{{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}, {Task: bert.Classification, Labels: 2}} {
		l, err := bert.Parameters(bert.Defaults(), h)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range l.Tensors() {
			if k := bert.KindOf(p.Name); k != p.Kind {
				t.Errorf("KindOf(%s) = %v, want %v", p.Name, k, p.Kind)
			}
		}
	}
}
