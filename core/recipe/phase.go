package recipe

import (
	"fmt"

	"harness.invalid/core/bert"
)

// Phase is a stretch of training with one task, length and schedule. It starts from the previous phase's
// parameters; a new head is initialised.
type Phase struct {
	// Name is what tables and overrides call the phase.
	Name string `yaml:"name" json:"name"`
	// Task is pretraining, question_answering, classification, multiple_choice or token_classification; that of the dataset if one is given.
	Task bert.Task `yaml:"task" json:"task"`
	// Dataset is the data set of fine-tuning, such as squad, mrpc or tnews; squad by default for question
	// answering.
	Dataset string `yaml:"dataset,omitempty" json:"dataset,omitempty"`
	// NumLabels of a classification, 1 is a regression, or choices of a question; those of the dataset if not given.
	NumLabels int `yaml:"num_labels,omitempty" json:"num_labels,omitempty"`
	// Labels are the names of the labels of a dataset that leaves them open, such as ner; those of its training data if
	// not given.
	Labels []string `yaml:"labels,omitempty" json:"labels,omitempty"`
	// Length is the number of tokens of a sequence, including padding.
	Length int `yaml:"length" json:"length"`
	// MaxPredictions is the number of masked positions of a sequence, including padding.
	MaxPredictions int `yaml:"max_predictions,omitempty" json:"max_predictions,omitempty"`

	// SequencesPerPack packs up to this many pre-training sequences into one row of Length tokens, where they do
	// not see each other. Batches then count rows, and a row has room for max_predictions + sequences_per_pack - 1
	// masked positions. 0 or 1: a row is a sequence. Evaluation does not pack.
	SequencesPerPack int `yaml:"sequences_per_pack,omitempty" json:"sequences_per_pack,omitempty"`

	// GlobalBatch is the number of sequences of one step: micro_batch x accumulation x replicas. Missing ones
	// follow from the others.
	GlobalBatch int `yaml:"global_batch" json:"global_batch"`
	// MicroBatch is the number of sequences that a device processes at once.
	MicroBatch int `yaml:"micro_batch" json:"micro_batch"`
	// Accumulation is the number of micro-batches that a device accumulates before the step.
	Accumulation int `yaml:"accumulation" json:"accumulation"`
	// Replicas is the number of devices that share the global batch; 1 if not given.
	Replicas int `yaml:"replicas" json:"replicas"`

	// Steps is the length of the phase. Fine-tuning may give epochs instead.
	Steps int `yaml:"steps,omitempty" json:"steps,omitempty"`
	// Epochs is the length of the phase in passes over its data.
	Epochs float64 `yaml:"epochs,omitempty" json:"epochs,omitempty"`

	Schedule  Schedule  `yaml:"schedule" json:"schedule"`
	Optimizer Optimizer `yaml:"optimizer" json:"optimizer"`
	// CarryOptimizerState starts the phase from the previous phase's moments, as NVIDIA's second phase of
	// pre-training does; the optimizer's step count restarts. Both phases must have the same optimizer.
	CarryOptimizerState bool `yaml:"carry_optimizer_state,omitempty" json:"carry_optimizer_state,omitempty"`
	// Alternatives are settings of other optimizers, by name, that the command line can select (--optimizers).
	Alternatives map[string]Optimizer `yaml:"alternatives,omitempty" json:"alternatives,omitempty"`

	Masking           *Masking           `yaml:"masking,omitempty" json:"masking,omitempty"`
	QuestionAnswering *QuestionAnswering `yaml:"question_answering,omitempty" json:"question_answering,omitempty"`

	Evaluation Evaluation `yaml:"evaluation" json:"evaluation"`
	// Target is a goal of the phase; the steps and time to reach it are reported.
	Target *Target `yaml:"target,omitempty" json:"target,omitempty"`
	// CheckpointEvery is the number of steps between checkpoints; 0: as many as take about a minute, and more where saving
	// would cost more than 3.5% of the time. It is not part of the fingerprint.
	CheckpointEvery int `yaml:"checkpoint_every,omitempty" json:"checkpoint_every,omitempty"`

	// HiddenDropoutProb overrides the model's in this phase.
	HiddenDropoutProb *float64 `yaml:"hidden_dropout_prob,omitempty" json:"hidden_dropout_prob,omitempty"`
	// AttentionProbsDropoutProb overrides the model's in this phase.
	AttentionProbsDropoutProb *float64 `yaml:"attention_probs_dropout_prob,omitempty" json:"attention_probs_dropout_prob,omitempty"`
}

// Optimizer is an update rule and its settings.
type Optimizer struct {
	// Name of a plugin, such as adamw or lamb.
	Name string `yaml:"name" json:"name"`
	// LearningRate overrides the schedule's, since rules need different rates.
	LearningRate float64 `yaml:"learning_rate,omitempty" json:"learning_rate,omitempty"`
	// Options are the plugin's own.
	Options Options `yaml:"options,omitempty" json:"options,omitempty"`
}

// Masking is how words are hidden from the masked LM. Defaults are those of google-research/bert,
// create_pretraining_data.py, which masks 80% of the chosen tokens, replaces 10% and leaves 10%.
type Masking struct {
	// Kind is static (masks are drawn DupeFactor times and then repeat, as published) or dynamic (every pass draws
	// new ones).
	Kind string `yaml:"kind" json:"kind"`
	// DupeFactor is the number of passes over the text with different static masks.
	DupeFactor int `yaml:"dupe_factor" json:"dupe_factor"`
	// WholeWord hides all pieces of a word together.
	WholeWord bool `yaml:"whole_word" json:"whole_word"`
	// MaskedLMProb is the share of tokens to predict.
	MaskedLMProb float64 `yaml:"masked_lm_prob" json:"masked_lm_prob"`
	// ShortSeqProb is the share of sequences shorter than Length, so that the model sees such ones as well.
	ShortSeqProb float64 `yaml:"short_seq_prob" json:"short_seq_prob"`
}

// The kinds of masking.
const (
	StaticMasking  = "static"
	DynamicMasking = "dynamic"
)

// QuestionAnswering is how long contexts are cut into windows and how answers are decoded. Defaults are those of
// google-research/bert, run_squad.py.
type QuestionAnswering struct {
	// DocStride is the distance in tokens between the starts of two windows on the same context.
	DocStride int `yaml:"doc_stride" json:"doc_stride"`
	// MaxQueryLength is the number of tokens of the question that are kept.
	MaxQueryLength int `yaml:"max_query_length" json:"max_query_length"`
	// NBest is the number of best starts, and of best ends, whose combinations are looked at.
	NBest int `yaml:"n_best" json:"n_best"`
	// MaxAnswerLength in tokens.
	MaxAnswerLength int `yaml:"max_answer_length" json:"max_answer_length"`
	// MaskPadding chooses starts and ends among the tokens that attention sees, in training and evaluation. The published
	// programs choose among all, padding included, which makes them compute it.
	MaskPadding bool `yaml:"mask_padding,omitempty" json:"mask_padding,omitempty"`
	// NullScoreDiffThreshold is the margin by which "there is no answer" must score higher than the best answer to be
	// given, for data such as squad2 whose questions may have no answer.
	NullScoreDiffThreshold float64 `yaml:"null_score_diff_threshold,omitempty" json:"null_score_diff_threshold,omitempty"`
}

// Evaluation is when and on how much the model is evaluated. It always is at the end of a phase.
type Evaluation struct {
	// Every is the number of steps between two; 0: only at the end.
	Every int `yaml:"every" json:"every"`
	// Batch is the number of sequences that are evaluated at once.
	Batch int `yaml:"batch" json:"batch"`
	// Sequences to evaluate on at most; 0: all that are held out. For question answering it is a number of questions.
	Sequences int `yaml:"sequences" json:"sequences"`
	// Metric says which of two evaluations is better, for Patience and KeepBest; the first one of the dataset, or
	// the loss, if not given.
	Metric string `yaml:"metric,omitempty" json:"metric,omitempty"`
	// Patience is how many evaluations in a row may be no better than the best before the phase ends early; 0: it
	// never does.
	Patience int `yaml:"patience,omitempty" json:"patience,omitempty"`
	// KeepBest ends the phase with the parameters of its best evaluation rather than with the last ones.
	KeepBest bool `yaml:"keep_best,omitempty" json:"keep_best,omitempty"`
}

// Target is a value of a metric for a run to reach.
type Target struct {
	// Metric that the phase evaluates, such as masked_lm_loss or f1.
	Metric string `yaml:"metric" json:"metric"`
	// Value to reach: from above for a loss, from below for a score.
	Value float64 `yaml:"value" json:"value"`
}

func (p *Phase) setDefaults() {
	p.Task = bert.Pretraining
	p.Schedule = Schedule{Kind: Linear, Power: 1}
	p.Evaluation = Evaluation{Batch: 32}
}

func (m *Masking) setDefaults() {
	*m = Masking{Kind: StaticMasking, DupeFactor: 10, MaskedLMProb: 0.15, ShortSeqProb: 0.1}
}

func (q *QuestionAnswering) setDefaults() {
	*q = QuestionAnswering{DocStride: 128, MaxQueryLength: 64, NBest: 20, MaxAnswerLength: 30}
}

// OptimizerNamed returns the settings of an optimizer, NAME or a Spec with options, in the phase: the phase's own for
// its optimizer or "", else those under alternatives, else the optimizer's defaults. Options of the spec override
// them; LearningRateOption is applied and taken out. The learning rate is filled in, scaled to the phase's global batch.
func (p *Phase) OptimizerNamed(spec string) Optimizer {
	s, err := ParseSpec(spec)
	if err != nil {
		s = Spec{Name: spec} // no plugin has that name
	}
	o := p.Optimizer
	if s.Name != "" && s.Name != o.Name {
		o = p.Alternatives[s.Name]
		o.Name = s.Name
	}
	if len(s.Options) > 0 {
		o.Options = o.Options.with(s.Options)
	}
	if o.LearningRate == 0 {
		o.LearningRate = p.Schedule.LearningRate
	}
	if rate, given := s.Options[LearningRateOption]; given {
		o.LearningRate, _ = changedRate(o.LearningRate, rate) // ParseOptimizer has checked it
		delete(o.Options, LearningRateOption)
	}
	o.LearningRate *= p.Schedule.scale(p.GlobalBatch)
	return o
}

// TotalSteps is the number of steps of the phase over the given number of sequences: Steps, or the whole steps in
// its epochs, at least one (google-research/bert, run_squad.py: int(sequences / batch * epochs)).
func (p *Phase) TotalSteps(sequences int) int {
	if p.Steps > 0 {
		return p.Steps
	}
	return max(1, int(float64(sequences)/float64(p.GlobalBatch)*p.Epochs))
}

// Cut divides a global batch over time and devices.
type Cut struct{ MicroBatch, Accumulation, Replicas int }

// Cut returns how a backend with these settings divides the global batch.
func (p *Phase) Cut(b Backend) (Cut, error) {
	if !b.cuts() {
		return Cut{p.MicroBatch, p.Accumulation, p.Replicas}, nil
	}
	_, c, err := cut(p.GlobalBatch, b.MicroBatch, b.Accumulation, b.Replicas)
	if err != nil {
		return c, fmt.Errorf("phase %s: the backend's cut: %w", p.Name, err)
	}
	return c, nil
}

// The most sequences of a step, and of one pass of a device.
const (
	mostGlobalBatch = 1 << 30
	mostMicroBatch  = 1 << 16
)

// cut fills in the zeros of a global batch and its cut, and checks the product.
func cut(global, micro, accumulation, replicas int) (int, Cut, error) {
	given := fmt.Sprintf("global_batch %d, micro_batch %d, accumulation %d, replicas %d", global, micro, accumulation, replicas)
	if global < 0 || global > mostGlobalBatch {
		return 0, Cut{}, fmt.Errorf("global_batch is %d, want 1 to %d sequences of a step", global, mostGlobalBatch)
	}
	whole := global > 0 && micro == 0
	if micro < 0 || accumulation < 0 || replicas < 0 || micro > mostMicroBatch || accumulation > 1<<20 || replicas > 1<<12 {
		return 0, Cut{}, fmt.Errorf("%s: want micro_batch up to %d, accumulation up to %d, replicas up to %d", given, mostMicroBatch,
			1<<20, 1<<12)
	}
	if replicas == 0 {
		replicas = 1
		if global > 0 && micro > 0 && accumulation > 0 {
			replicas = global / (micro * accumulation)
		}
	}
	switch {
	case global == 0 && micro == 0:
		return 0, Cut{}, fmt.Errorf("neither global_batch nor micro_batch is given")
	case global == 0:
		accumulation = max(1, accumulation)
		global = micro * accumulation * replicas
	case micro == 0:
		accumulation = max(1, accumulation)
		micro = global / (accumulation * replicas)
	case accumulation == 0:
		accumulation = global / (micro * replicas)
	}
	if n := micro * accumulation * replicas; n != global || n == 0 {
		return 0, Cut{}, fmt.Errorf("%s: global_batch %d is not micro_batch %d x accumulation %d x replicas %d", given, global, micro,
			accumulation, replicas)
	}
	if whole && micro > mostMicroBatch {
		return 0, Cut{}, fmt.Errorf("global_batch %d is cut into micro-batches of %d sequences, want at most %d: a smaller "+
			"global_batch, or accumulation %d or more", global, micro, mostMicroBatch,
			(global+mostMicroBatch*replicas-1)/(mostMicroBatch*replicas))
	}
	return global, Cut{micro, accumulation, replicas}, nil
}
