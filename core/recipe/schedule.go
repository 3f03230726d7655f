package recipe

import (
	"fmt"
	"math"
)

// Schedule is the learning rate over the steps of a phase. Published schedules differ in small ways that change
// results, so each follows its source exactly.
type Schedule struct {
	// Kind is one of
	//
	//	constant    warm-up from 0, then the same rate
	//	linear      warm-up from 0, then down to 0 over the remaining steps
	//	polynomial  the same with a power and an end
	//	google      decay over all steps, the first of which are replaced by a warm-up: where that ends the rate jumps down
	//	nvidia      the same, one step ahead; NVIDIA uses a power of 0.5
	//
	// Sources: Hugging Face transformers, optimization.py, get_constant_schedule_with_warmup,
	// get_linear_schedule_with_warmup (Graphcore's too) and get_polynomial_decay_schedule_with_warmup;
	// google-research/bert, optimization.py; NVIDIA DeepLearningExamples, PyTorch BERT, schedulers.py,
	// PolyWarmUpScheduler.
	//
	// With a warm-up the first step has a rate of 0, except under nvidia.
	Kind string `yaml:"kind" json:"kind"`
	// LearningRate is the highest rate.
	LearningRate float64 `yaml:"learning_rate" json:"learning_rate"`
	// BatchScaling is how the rate grows with the global batch: linear (Goyal et al. 2017, arXiv:1706.02677) or
	// sqrt (You et al. 2020, arXiv:1904.00962). LearningRate is then that of ReferenceBatch.
	BatchScaling string `yaml:"batch_scaling,omitempty" json:"batch_scaling,omitempty"`
	// ReferenceBatch is the global batch that LearningRate is for.
	ReferenceBatch int `yaml:"reference_batch,omitempty" json:"reference_batch,omitempty"`
	// StartLearningRate is the rate at the start of the warm-up.
	StartLearningRate float64 `yaml:"start_learning_rate,omitempty" json:"start_learning_rate,omitempty"`
	// WarmupSteps is the length of the warm-up in steps.
	WarmupSteps int `yaml:"warmup_steps,omitempty" json:"warmup_steps,omitempty"`
	// WarmupRatio is the length of the warm-up as a share of all steps. At most one of the two is given.
	WarmupRatio float64 `yaml:"warmup_ratio,omitempty" json:"warmup_ratio,omitempty"`
	// Power of the decay: 1 is a straight line. For all kinds but constant and linear.
	Power float64 `yaml:"power" json:"power"`
	// EndLearningRate is the final rate of polynomial and google.
	EndLearningRate float64 `yaml:"end_learning_rate,omitempty" json:"end_learning_rate,omitempty"`
	// StepsAhead is added to the number of completed steps: 1 where a source advances its schedule before the
	// update instead of after it.
	StepsAhead int `yaml:"steps_ahead,omitempty" json:"steps_ahead,omitempty"`
	// DecayEvery is the number of steps between updates of the rate after the warm-up; 0: every step. Graphcore's
	// examples for PopART have 32 and 8 (lr_steps_per_decay_update).
	DecayEvery int `yaml:"decay_every,omitempty" json:"decay_every,omitempty"`
}

// The kinds of schedules.
const (
	Constant   = "constant"
	Linear     = "linear"
	Polynomial = "polynomial"
	Google     = "google"
	NVIDIA     = "nvidia"
)

var scheduleKinds = []string{Constant, Linear, Polynomial, Google, NVIDIA}

// The rules by which a rate grows with the batch.
const (
	LinearScaling = "linear"
	SqrtScaling   = "sqrt"
)

var batchScalings = []string{LinearScaling, SqrtScaling}

// LR is the learning rate of step 1, 2, ..., total.
func (s Schedule) LR(step, total int) float64 {
	// The sources count completed updates: t of n.
	t, n, w := float64(step-1+s.StepsAhead), float64(total), s.warmup(total)
	if s.Kind == NVIDIA {
		t++
	}
	if t < w {
		if start := s.StartLearningRate; start > 0 {
			return start + (s.LearningRate-start)*t/w
		}
		return s.LearningRate * t / w
	}
	if every := float64(s.DecayEvery); every > 0 && t < n {
		t = w + math.Floor((t-w)/every)*every
	}
	end := s.EndLearningRate
	switch s.Kind {
	case Google:
		return (s.LearningRate-end)*math.Pow(1-min(t, n)/n, s.Power) + end
	case NVIDIA:
		return s.LearningRate * math.Pow(1-min(t, n)/n, s.Power)
	}
	left := 0.0
	if t < n {
		left = (n - t) / (n - w)
	}
	switch s.Kind {
	case Linear:
		return s.LearningRate * left
	case Polynomial:
		return (s.LearningRate-end)*math.Pow(left, s.Power) + end
	}
	return s.LearningRate
}

// warmup is the number of steps of the warm-up: google rounds a ratio down (run_squad.py), Hugging Face's up
// (TrainingArguments.get_warmup_steps), NVIDIA not at all.
func (s Schedule) warmup(total int) float64 {
	if s.WarmupRatio == 0 {
		return float64(s.WarmupSteps)
	}
	w := s.WarmupRatio * float64(total)
	switch s.Kind {
	case Google:
		return math.Floor(w)
	case NVIDIA:
		return w
	}
	return math.Ceil(w)
}

// With returns the schedule with another highest learning rate.
func (s Schedule) With(learningRate float64) Schedule {
	s.LearningRate = learningRate
	return s
}

// scale is the factor on the rate for a global batch.
func (s Schedule) scale(globalBatch int) float64 {
	if s.BatchScaling == "" {
		return 1
	}
	k := float64(globalBatch) / float64(s.ReferenceBatch)
	if s.BatchScaling == SqrtScaling {
		return math.Sqrt(k)
	}
	return k
}

// validate returns the name of the first invalid field and what is wrong with it.
func (s Schedule) validate() (field string, err error) {
	if err := oneOf(s.Kind, scheduleKinds); err != nil {
		return "kind", err
	}
	switch {
	case !(s.LearningRate > 0 && s.LearningRate <= 100):
		return "learning_rate", fmt.Errorf("is %g, want more than 0 and at most 100", s.LearningRate)
	case s.BatchScaling != "" && oneOf(s.BatchScaling, batchScalings) != nil:
		return "batch_scaling", oneOf(s.BatchScaling, batchScalings)
	case s.BatchScaling != "" && (s.ReferenceBatch < 1 || s.ReferenceBatch > 1<<30):
		return "reference_batch", fmt.Errorf("is %d, want 1 to %d: the global batch for which learning_rate is meant", s.ReferenceBatch, 1<<30)
	case s.BatchScaling == "" && s.ReferenceBatch != 0:
		return "reference_batch", fmt.Errorf("is %d, but batch_scaling does not say how the rate follows the batch, want linear or sqrt",
			s.ReferenceBatch)
	case s.StepsAhead < 0 || s.StepsAhead > 1<<30:
		return "steps_ahead", fmt.Errorf("is %d, want 0 to %d", s.StepsAhead, 1<<30)
	case s.DecayEvery < 0 || s.DecayEvery > 1<<30:
		return "decay_every", fmt.Errorf("is %d, want 0 to %d", s.DecayEvery, 1<<30)
	case s.WarmupSteps < 0:
		return "warmup_steps", fmt.Errorf("is %d, want at least 0", s.WarmupSteps)
	case !(s.WarmupRatio >= 0 && s.WarmupRatio <= 1):
		return "warmup_ratio", fmt.Errorf("is %g, want 0 to 1", s.WarmupRatio)
	case s.WarmupSteps > 0 && s.WarmupRatio > 0:
		return "warmup_ratio", fmt.Errorf("is %g and warmup_steps is %d, want one of the two", s.WarmupRatio, s.WarmupSteps)
	case !(s.Power > 0 && s.Power <= 10):
		return "power", fmt.Errorf("is %g, want more than 0 and at most 10", s.Power)
	case s.Power != 1 && (s.Kind == Constant || s.Kind == Linear):
		return "power", fmt.Errorf("is %g, but a %s schedule has none: want kind polynomial, google or nvidia", s.Power, s.Kind)
	case s.EndLearningRate > 0 && s.Kind != Polynomial && s.Kind != Google:
		return "end_learning_rate", fmt.Errorf("is %g, but a %s schedule has none: want kind polynomial or google", s.EndLearningRate, s.Kind)
	}
	return "", nil
}
