// Package optimizer is the contract between harness and an update rule.
//
// An Optimizer describes itself, says which state it needs for a set of options, and opens sessions over memory that the host owns: parameters,
// gradients and the state's slots, all float32 with the same layout. Because the host owns all of it, a checkpoint is complete without the
// plugin's help, and a plugin that died is started again where it was.
//
//	Describe  ->  Slots  ->  Open  ->  ( [ Probe -> ] Step  |  Average )*  ->  Close
//
// Some rules want more of the training loop than one gradient a step: a second one at other parameters (Prober), or other parameters for evaluation
// (Averager). They say so in Info. Rule makes an Optimizer of what rules differ in.
//
// core/optimizer/optimizertest holds any implementation against what is said here.
package optimizer

import (
	"context"

	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

// Optimizer is an update rule.
type Optimizer interface {
	// Describe tells what the rule is and takes. It is cheap and may be called at any time.
	Describe(ctx context.Context) (Info, error)
	// Slots names the state that the rule keeps for each parameter under these options, such as m and v. Bad options are an error.
	Slots(ctx context.Context, options map[string]string) ([]string, error)
	// Open prepares updates of the host's memory.
	Open(ctx context.Context, options map[string]string, m Memory) (Session, error)
}

// Session updates one set of parameters. Its calls come one at a time.
type Session interface {
	// Step updates Memory.Params and Memory.Slots in place from Memory.Grads, which may be left changed. Its result is a pure function of
	// its memory and s: no state survives between calls.
	Step(ctx context.Context, s Step) (StepResult, error)
	// Close frees what the session holds. Memory stays the host's.
	Close() error
}

// Prober is a session of a rule that asks for two gradients in each step (Info.Probes), as sharpness-aware minimisation does. A step then is
//
//	first gradient  ->  Probe  ->  second gradient, of the same batch  ->  Step
//
// The host takes the second gradient at the parameters that Probe left, as the backend stores them, and puts the first ones back before Step.
type Prober interface {
	Session
	// Probe moves Memory.Params to where the second gradient is wanted, from the first one in Memory.Grads, which may be left changed. s is that of
	// the Step that follows. Slots may carry something to that Step. It does not come when the second gradient is not finite: the next call then is the
	// Probe of the next batch, with the same number.
	Probe(ctx context.Context, s Step) error
}

// Averager is a session of a rule whose model has other parameters than those that it trains at (Info.Averages), such as an average over steps.
type Averager interface {
	Session
	// Average replaces Memory.Params by the parameters of the model, as they are after updates Steps, at least 1. Slots stay what they are. The host puts
	// the parameters back before training goes on.
	Average(ctx context.Context, updates int) error
}

// Info describes an optimizer.
type Info struct {
	Name     string
	Version  string
	Doc      string // one line, with the paper
	Options  []option.Option
	Probes   bool // sessions are Probers, and a Step comes after a Probe only
	Averages bool // sessions are Averagers
}

// Memory is the host's: a session reads and writes it during its calls only.
type Memory struct {
	Layout *tensor.Layout
	Params []float32   // [Layout.Len()]
	Grads  []float32   // [Layout.Len()]
	Slots  [][]float32 // each [Layout.Len()], in the order of Optimizer.Slots; zero at the start of a run
}

// Step is one update.
type Step struct {
	Step int     // 1, 2, ...: number of this update, skipped steps not counted (the t of bias correction)
	LR   float64 // learning rate of this step, from the recipe's schedule
	// GradientNorm is the Norm of Memory.Grads where the host has taken it, which saves a rule a pass over them; 0: not taken.
	GradientNorm float64
}

// StepResult is what an update was like.
type StepResult struct {
	GradientNorm float64 // global L2 norm of the gradients before clipping; of the second ones where the rule probes
}
