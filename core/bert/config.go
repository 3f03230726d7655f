package bert

import (
	"fmt"
)

// Activation is the nonlinearity of the feed-forward layers, in Hugging Face's spelling.
type Activation string

// The two forms of GELU (Hendrycks, Gimpel 2016, arXiv:1606.08415). They differ by up to 5e-4, enough to tell two
// checkpoints apart.
const (
	GELU    Activation = "gelu"     // x·Φ(x) with erf: Hugging Face's default
	GELUNew Activation = "gelu_new" // tanh approximation: google-research/bert, NVIDIA, Graphcore
)

// Config is the shape of a BERT, with Hugging Face's keys (config.json).
type Config struct {
	VocabSize                 int        `json:"vocab_size" yaml:"vocab_size"`
	HiddenSize                int        `json:"hidden_size" yaml:"hidden_size"`
	NumHiddenLayers           int        `json:"num_hidden_layers" yaml:"num_hidden_layers"`
	NumAttentionHeads         int        `json:"num_attention_heads" yaml:"num_attention_heads"`
	IntermediateSize          int        `json:"intermediate_size" yaml:"intermediate_size"`
	HiddenAct                 Activation `json:"hidden_act" yaml:"hidden_act"`
	HiddenDropoutProb         float64    `json:"hidden_dropout_prob" yaml:"hidden_dropout_prob"`
	AttentionProbsDropoutProb float64    `json:"attention_probs_dropout_prob" yaml:"attention_probs_dropout_prob"`
	MaxPositionEmbeddings     int        `json:"max_position_embeddings" yaml:"max_position_embeddings"`
	TypeVocabSize             int        `json:"type_vocab_size" yaml:"type_vocab_size"`
	InitializerRange          float64    `json:"initializer_range" yaml:"initializer_range"`
	LayerNormEps              float64    `json:"layer_norm_eps" yaml:"layer_norm_eps"`
	// AttentionMask is added to the scores of padding: -10000 in google-research/bert and NVIDIA, -1000 on Graphcore's
	// IPU.
	AttentionMask float64 `json:"attention_mask_value" yaml:"attention_mask_value"`
}

// Defaults is BERT-Base as google-research/bert publishes it; Size changes it to the other sizes.
func Defaults() Config {
	return Config{
		VocabSize: 30522, HiddenSize: 768, NumHiddenLayers: 12, NumAttentionHeads: 12, IntermediateSize: 3072,
		HiddenAct: GELUNew, HiddenDropoutProb: 0.1, AttentionProbsDropoutProb: 0.1,
		MaxPositionEmbeddings: 512, TypeVocabSize: 2, InitializerRange: 0.02, LayerNormEps: 1e-12, AttentionMask: -10000,
	}
}

// sizes are layers, hidden size and heads of the published models; the feed-forward layer is four times as wide as
// the hidden one. Source: google-research/bert README (March 2020, "smaller BERT models"); Devlin et al. 2018 for
// base and large.
var sizes = []struct {
	name                  string
	layers, hidden, heads int
}{
	{"tiny", 2, 128, 2},
	{"mini", 4, 256, 4},
	{"small", 4, 512, 8},
	{"medium", 8, 512, 8},
	{"base", 12, 768, 12},
	{"large", 24, 1024, 16},
}

// SizeNames are the names that Size knows, smallest first.
func SizeNames() []string {
	names := make([]string, len(sizes))
	for i, s := range sizes {
		names[i] = s.name
	}
	return names
}

// Size returns c with the layers, widths and heads of a published model: tiny, mini, small, medium, base or large.
func (c Config) Size(name string) (Config, error) {
	for _, s := range sizes {
		if s.name == name {
			c.NumHiddenLayers, c.HiddenSize, c.NumAttentionHeads, c.IntermediateSize = s.layers, s.hidden, s.heads, 4*s.hidden
			return c, nil
		}
	}
	return c, fmt.Errorf("bert: no size is named %q, want one of %v", name, SizeNames())
}

// Limits on what a recipe, file or peer may ask for: well above BERT-Large, and low enough that no product of sizes
// overflows.
const (
	maxExtent = 1 << 20
	maxLayers = 1 << 10
	maxHeads  = 1 << 10
)

// Validate reports the first field with an impossible value.
func (c Config) Validate() error {
	for _, f := range []struct {
		key   string
		value int
		max   int
	}{
		{"vocab_size", c.VocabSize, 1 << 24},
		{"hidden_size", c.HiddenSize, maxExtent},
		{"num_hidden_layers", c.NumHiddenLayers, maxLayers},
		{"num_attention_heads", c.NumAttentionHeads, maxHeads},
		{"intermediate_size", c.IntermediateSize, maxExtent},
		{"max_position_embeddings", c.MaxPositionEmbeddings, maxExtent},
		{"type_vocab_size", c.TypeVocabSize, maxExtent},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("bert: %s is %d, want 1 to %d", f.key, f.value, f.max)
		}
	}
	if c.HiddenSize%c.NumAttentionHeads != 0 {
		return fmt.Errorf("bert: hidden_size %d is not a multiple of num_attention_heads %d", c.HiddenSize, c.NumAttentionHeads)
	}
	if c.HiddenAct != GELU && c.HiddenAct != GELUNew {
		return fmt.Errorf("bert: hidden_act is %q, want %q (erf) or %q (tanh)", c.HiddenAct, GELU, GELUNew)
	}
	for _, f := range []struct {
		key   string
		value float64
	}{
		{"hidden_dropout_prob", c.HiddenDropoutProb},
		{"attention_probs_dropout_prob", c.AttentionProbsDropoutProb},
	} {
		if !(f.value >= 0 && f.value < 1) {
			return fmt.Errorf("bert: %s is %g, want 0 <= p < 1", f.key, f.value)
		}
	}
	if !(c.LayerNormEps > 0 && c.LayerNormEps < 1) {
		return fmt.Errorf("bert: layer_norm_eps is %g, want 0 < eps < 1", c.LayerNormEps)
	}
	if !(c.InitializerRange > 0 && c.InitializerRange < 1) {
		return fmt.Errorf("bert: initializer_range is %g, want 0 < sd < 1", c.InitializerRange)
	}
	if !(c.AttentionMask < 0) {
		return fmt.Errorf("bert: attention_mask_value is %g, want a negative number such as -10000", c.AttentionMask)
	}
	return nil
}

// HeadSize is the width of one attention head.
func (c Config) HeadSize() int { return c.HiddenSize / c.NumAttentionHeads }

// Task is what the heads on top of the encoder are trained for.
type Task string

// The tasks.
const (
	Pretraining         Task = "pretraining"          // masked LM and next sentence prediction
	QuestionAnswering   Task = "question_answering"   // start and end of a span (SQuAD)
	Classification      Task = "classification"       // one label for a sequence; a regression when there is one
	MultipleChoice      Task = "multiple_choice"      // which of several sequences is right
	TokenClassification Task = "token_classification" // a label for each of a sequence's tokens, such as those of named entities
)

// Tasks are all tasks.
func Tasks() []Task {
	return []Task{Pretraining, QuestionAnswering, Classification, MultipleChoice, TokenClassification}
}

// Head is a task with its number of labels.
type Head struct {
	Task   Task `json:"task"`
	Labels int  `json:"num_labels,omitempty"` // of a classification, 1 for a regression; MultipleChoice: choices
	// MaskPadding, of QuestionAnswering: starts and ends are chosen among the tokens that attention sees. The logits of
	// the others are PaddingLogit, which their loss does not depend on.
	MaskPadding bool `json:"mask_padding,omitempty"`
}

// PaddingLogit is a logit whose probability is 0 beside any other.
const PaddingLogit = -10000

// Validate reports an unknown task, or a number of labels that the task cannot have.
func (h Head) Validate() error {
	if h.MaskPadding && h.Task != QuestionAnswering {
		return fmt.Errorf("bert: mask_padding is set for %s, want %s", h.Task, QuestionAnswering)
	}
	switch h.Task {
	case Pretraining, QuestionAnswering:
		return nil
	case Classification:
		if h.Labels < 1 || h.Labels > maxExtent {
			return fmt.Errorf("bert: num_labels is %d, want 1 (regression) to %d", h.Labels, maxExtent)
		}
		return nil
	case MultipleChoice:
		if h.Labels < 2 || h.Labels > maxExtent {
			return fmt.Errorf("bert: num_labels is %d, want 2 to %d choices", h.Labels, maxExtent)
		}
		return nil
	case TokenClassification:
		if h.Labels < 2 || h.Labels > maxExtent {
			return fmt.Errorf("bert: num_labels is %d, want 2 to %d", h.Labels, maxExtent)
		}
		return nil
	}
	return fmt.Errorf("bert: no task is named %q, want one of %v", h.Task, Tasks())
}
