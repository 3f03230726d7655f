// Package optimizer is the contract between harness and an update rule.
//
// An Optimizer describes itself, names the state that it needs for a set of options, and opens sessions over memory that the
// host owns: parameters, gradients and the state's slots, all float32 with the same layout. Because the host owns all of it,
// a checkpoint is complete without the plugin's help, and a plugin that died is restarted where it was.
//
//	Describe  ->  Slots  ->  [ Cost -> ]  Open  ->  ( [ Probe -> ] Step  |  Average )*  ->  Close
//
// Some rules need more from the training loop than one gradient per step: a second gradient at other parameters (Prober), or
// other parameters for evaluation (Averager). They declare it in Info. A rule that states what an update costs (Coster) is
// priced by machine models. Rule builds an Optimizer from the parts in which rules differ.
//
// Package optimizertest checks implementations against this contract.
package optimizer

import (
	"context"

	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

// Optimizer is an update rule.
type Optimizer interface {
	// Describe says what the rule is and which options it takes. It is cheap and may be called at any time.
	Describe(ctx context.Context) (Info, error)
	// Slots names the state that the rule keeps for each parameter with these options, such as m and v. Bad options are
	// an error.
	Slots(ctx context.Context, options map[string]string) ([]string, error)
	// Open starts a session over the host's memory.
	Open(ctx context.Context, options map[string]string, m Memory) (Session, error)
}

// Session updates one set of parameters. Calls are made one at a time.
type Session interface {
	// Step updates Memory.Params and Memory.Slots in place from Memory.Grads, which it may overwrite. The result is a
	// pure function of the memory and s: no other state survives between calls.
	Step(ctx context.Context, s Step) (StepResult, error)
	// Close frees what the session holds. The memory still belongs to the host.
	Close() error
}

// Prober is a session of a rule that needs two gradients per step (Info.Probes), as sharpness-aware minimisation does:
//
//	first gradient  ->  Probe  ->  second gradient of the same batch  ->  Step
//
// The host computes the second gradient at the parameters that Probe left, as the backend stores them, and restores the
// first parameters before Step.
type Prober interface {
	Session
	// Probe moves Memory.Params to where the second gradient is needed, using the first one in Memory.Grads, which it may
	// overwrite. s is that of the Step that follows. Slots may carry data to that Step. If the second gradient is not
	// finite, the Step is skipped, and the next call is a Probe for the next batch with the same number.
	Probe(ctx context.Context, s Step) error
}

// Averager is a session of a rule whose model is not the parameters that it trains (Info.Averages) but, for example, their
// average over steps.
type Averager interface {
	Session
	// Average replaces Memory.Params by the model's parameters after a number of updates, at least 1. It leaves the slots
	// unchanged. The host restores the parameters before training continues.
	Average(ctx context.Context, updates int) error
}

// Info describes an optimizer.
type Info struct {
	Name     string
	Version  string
	Doc      string // one line, with the paper
	Options  []option.Option
	Probes   bool // sessions are Probers, and every Step follows a Probe
	Averages bool // sessions are Averagers
}

// Memory belongs to the host. A session reads and writes it only during calls.
type Memory struct {
	Layout *tensor.Layout
	Params []float32   // [Layout.Len()]
	Grads  []float32   // [Layout.Len()]
	Slots  [][]float32 // each [Layout.Len()], in the order of Optimizer.Slots; zero at the start of a run
}

// Step is one update.
type Step struct {
	Step int     // 1, 2, ...: number of this update, not counting skipped steps (the t of bias correction)
	LR   float64 // learning rate of this step, from the recipe's schedule
	// GradientNorm is the Norm of Memory.Grads if the host knows it, which saves the rule a pass over them; 0: unknown.
	GradientNorm float64
}

// StepResult is the outcome of an update.
type StepResult struct {
	GradientNorm float64 // global L2 norm of the gradients before clipping; of the second gradients if the rule probes
}
