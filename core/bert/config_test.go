package bert_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// TestParameterCounts rebuilds the published numbers: BERT-Base with its pre-training heads has 110,106,428
// parameters in transformers (BertForPreTraining), and the encoders of the smaller models have 4.4M, 11.3M, 29.1M
// and 41.7M (google-research/bert README, with pooler).
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

// TestInitialize: a normal distribution cut at two standard deviations has 0.8796 of its standard deviation
// (google-research/bert: 0.02 gives "about 0.0176"). 131,072 values estimate it within 1%.
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

// TestInitializers: where published systems differ from google-research/bert. A normal distribution has 4.55%
// of its values beyond two standard deviations, a uniform one within b of 0 a standard deviation of b/sqrt(3).
func TestInitializers(t *testing.T) {
	c, err := bert.Defaults().Size("tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.VocabSize = 1000
	l, err := bert.Parameters(c, bert.Head{Task: bert.Pretraining})
	if err != nil {
		t.Fatal(err)
	}
	bound := 1 / math.Sqrt(128)
	params := make([]float32, l.Len())
	for _, i := range []bert.Initializer{bert.Normal, bert.NVIDIA} {
		i.Initialize(c, l, params, 1)
		for _, p := range l.Tensors() {
			values := p.Of(params)
			linear := strings.Contains(p.Name, "intermediate.dense") || strings.Contains(p.Name, "pooler.dense") ||
				strings.Contains(p.Name, "transform.dense")
			if p.Kind == tensor.Embedding {
				zero := slices.Max(values[:128]) == 0 && slices.Min(values[:128]) == 0
				if want := i == bert.Normal && strings.Contains(p.Name, "word_embeddings"); zero != want {
					t.Errorf("%s: the first row of %s is zero: %v, want %v", i, p.Name, zero, want)
				}
			}
			var squares, beyond float64
			for _, v := range values {
				squares += float64(v) * float64(v)
				if math.Abs(float64(v)) > 0.04 {
					beyond++
				}
			}
			n := float64(len(values))
			sd, beyond := math.Sqrt(squares/n), beyond/n
			switch {
			case p.Kind == tensor.NormScale || p.Kind == tensor.NormBias:
			case i == bert.NVIDIA && linear:
				if math.Abs(sd-bound/math.Sqrt(3)) > 4*bound/math.Sqrt(n) || float64(slices.Max(values)) > bound ||
					float64(slices.Min(values)) < -bound {
					t.Errorf("%s: %s has a standard deviation of %.3g and values from %.3g to %.3g, want %.3g and %.3g to both sides",
						i, p.Name, sd, slices.Min(values), slices.Max(values), bound/math.Sqrt(3), bound)
				}
			case p.Kind == tensor.Bias:
				if sd != 0 {
					t.Errorf("%s: %s is not 0", i, p.Name)
				}
			case n > 1e4:
				if math.Abs(sd-0.02) > 3e-4 || math.Abs(beyond-0.0455) > 6e-3 {
					t.Errorf("%s: %s has a standard deviation of %.4g and %.4g of its values beyond two of them, want 0.02 and 0.0455",
						i, p.Name, sd, beyond)
				}
			}
		}
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
