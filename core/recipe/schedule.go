package recipe

import (
	"fmt"
	"math"
)

// Schedule is the learning rate over the steps of a phase. The published ones differ in small ways that change results, so each is here as
// its source has it.
type Schedule struct {
	// Kind is one of
	//
	//	constant    warm-up from 0, then the same. Hugging Face transformers, optimization.py, get_constant_schedule_with_warmup
	//	linear      warm-up from 0, then down to 0 over the steps that are left. get_linear_schedule_with_warmup; Graphcore
	//	polynomial  the same with a power and an end. get_polynomial_decay_schedule_with_warmup
	//	google      decay over all steps, of which the first are replaced by a warm-up: the rate jumps down where that ends. google-research/bert, optimization.py
	//	nvidia      the same, one step ahead ; NVIDIA has a power of 0.5. DeepLearningExamples PyTorch BERT, schedulers.py, PolyWarmUpScheduler
	//
	// In all but nvidia the first step has a rate of 0 when there is a warm-up.
	Kind string `yaml:"kind" json:"kind"`
	// LearningRate is the highest.
	LearningRate float64 `yaml:"learning_rate" json:"learning_rate"`
	// WarmupSteps is the length of the warm-up.
	WarmupSteps int `yaml:"warmup_steps,omitempty" json:"warmup_steps,omitempty"`
	// WarmupRatio is the length of the warm-up as a share of all steps. At most one of the two is given.
	WarmupRatio float64 `yaml:"warmup_ratio,omitempty" json:"warmup_ratio,omitempty"`
	// Power of the decay: 1 is a straight line. For all kinds but constant and linear.
	Power float64 `yaml:"power" json:"power"`
	// EndLearningRate is where polynomial and google end.
	EndLearningRate float64 `yaml:"end_learning_rate,omitempty" json:"end_learning_rate,omitempty"`
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

// LR is the learning rate of step 1, 2, ..., total.
func (s Schedule) LR(step, total int) float64 {
	// The sources count updates that are done: t of n.
	t, n, w := float64(step-1), float64(total), s.warmup(total)
	end := s.EndLearningRate
	switch s.Kind {
	case Google:
		if t < w {
			return s.LearningRate * t / w
		}
		return (s.LearningRate-end)*math.Pow(1-min(t, n)/n, s.Power) + end
	case NVIDIA:
		t++
		if t < w {
			return s.LearningRate * t / w
		}
		return s.LearningRate * math.Pow(1-min(t, n)/n, s.Power)
	}
	if t < w {
		return s.LearningRate * t / w
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

// warmup is the number of steps of the warm-up: google rounds a ratio down (run_squad.py), Hugging Face's up (TrainingArguments.get_warmup_steps),
// NVIDIA not at all.
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

// validate reports what is wrong with the field that it names.
func (s Schedule) validate() (field string, err error) {
	if err := oneOf(s.Kind, scheduleKinds); err != nil {
		return "kind", err
	}
	switch {
	case !(s.LearningRate > 0 && s.LearningRate <= 100):
		return "learning_rate", fmt.Errorf("is %g, want more than 0 and at most 100", s.LearningRate)
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
	case !(s.EndLearningRate >= 0 && s.EndLearningRate <= s.LearningRate):
		return "end_learning_rate", fmt.Errorf("is %g, want 0 to learning_rate %g", s.EndLearningRate, s.LearningRate)
	case s.EndLearningRate > 0 && s.Kind != Polynomial && s.Kind != Google:
		return "end_learning_rate", fmt.Errorf("is %g, but a %s schedule has none: want kind polynomial or google", s.EndLearningRate, s.Kind)
	}
	return "", nil
}
