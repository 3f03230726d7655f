// Package backend is the contract between harness and a device that trains BERT.
//
// A Backend describes itself and opens sessions. A Session runs a program over memory that the host owns: batches
// and parameters go in, losses, outputs and gradients come out. Between steps the host lets an optimizer change the
// parameters, and Commit hands them to the device.
//
//	Describe  ->  Open  ->  Commit(0)  ->  ( Step  ->  optimizer  ->  Commit )*  ->  Evaluate*  ->  Save  ->  Close
//
// Built-in backends, those of third parties and the client of a backend in another process all implement it.
// core/backend/backendtest tests any implementation against this contract.
package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/option"
	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
)

// Backend is a kind of device.
type Backend interface {
	// Describe returns what the backend is and what it accepts. It is cheap and may be called at any time.
	Describe(ctx context.Context) (Info, error)
	// Open prepares the device for a program over the host's memory. For a program that it can't run it returns an
	// error with the wrong field and what it accepts instead, or ErrOutOfMemory if the modelled or real device is too
	// small.
	Open(ctx context.Context, p Program, m Memory) (Session, error)
}

// Session is an open program. Only one of its calls runs at a time.
type Session interface {
	// Step runs forward and backward over one global batch and leaves in Memory.Grads the gradient of its mean loss:
	// FP32, unscaled, summed over micro-batches and replicas, every element set. The micro-batches come in the order
	// of their samples, MicroBatch sequences each.
	Step(ctx context.Context, s Step, batches iter.Seq2[*bert.Batch, error]) (StepResult, error)
	// Commit takes Memory.Params into the device's storage format and writes back what the device keeps. It is called
	// with step 0 before the first Step, and after every change of the parameters.
	Commit(ctx context.Context, step int) error
	// Evaluate runs forward without dropout. For each batch it yields the outputs that were asked for by name, see
	// Outputs. Losses are summed over the batches if they have labels.
	Evaluate(ctx context.Context, e Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(Outputs) error) (bert.Losses, error)
	// Save returns the session's private state (loss scaler, counters) as a small opaque blob. With it and the
	// parameters another process can go on with the same bits. Load restores it.
	Save(ctx context.Context) ([]byte, error)
	Load(ctx context.Context, state []byte) error
	// Close frees what the session holds. Memory stays the host's.
	Close() error
}

// Info describes a backend.
type Info struct {
	Name       string
	Version    string
	Doc        string // one line
	Precisions []Precision
	Options    []option.Option
	// RepeatsSteps says that Session.Step may be called again with the number of the last step, after a Commit of
	// other parameters, to get the gradient of the same batch there. Optimizers that ask for a second gradient need
	// it.
	RepeatsSteps bool
}

// PolicyOption is the option of a backend that takes a table of number formats as YAML, see emulator.ParsePolicy. The
// precision is then a name for it and no longer one of Info.Precisions.
const PolicyOption = "policy"

// Precision finds a precision by name; the empty name is the first.
func (i Info) Precision(name string) (Precision, error) {
	names := make([]string, len(i.Precisions))
	for k, p := range i.Precisions {
		if p.Name == name || name == "" {
			return p, nil
		}
		names[k] = p.Name
	}
	return Precision{}, fmt.Errorf("no precision is named %q%s (known: %s)", name, spelling.Hint(name, names), strings.Join(names, ", "))
}

// Precision is a set of number formats under one name, such as fp32 or fp16.16.
type Precision struct {
	Name string
	Doc  string
	// The tolerances are the largest relative errors (norm of the difference over norm of the reference) of outputs
	// and gradients against float64 results on a small model without dropout; Reason says where they come from.
	OutputTolerance, GradientTolerance float64
	Reason                             string
}

// Program is what a backend is asked to run: the model, how the global batch is cut, and the number formats.
type Program struct {
	Model     bert.Config
	Head      bert.Head
	Precision string            // one of Info.Precisions; empty: the first
	Options   map[string]string // of Info.Options; those not given have their default
	Seed      uint64

	Length         int // tokens a sequence
	MaxPredictions int // masked positions a sequence; Pretraining only
	MicroBatch     int // sequences a device computes at a time
	Accumulation   int // micro-batches a replica sums before an update
	Replicas       int // devices that work on parts of the same global batch
	// SequencesPerPack is the largest number of sequences in a row of a batch; 0 and 1: rows are not packed.
	// Pretraining only.
	SequencesPerPack int
}

// GlobalBatch is the number of sequences of one step.
func (p Program) GlobalBatch() int { return p.MicroBatch * p.Accumulation * p.Replicas }

// Validate reports the first field with a value that no backend can run.
func (p Program) Validate() error {
	if err := p.Model.Validate(); err != nil {
		return err
	}
	if err := p.Head.Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"length", p.Length, p.Model.MaxPositionEmbeddings},
		{"micro_batch", p.MicroBatch, 1 << 16},
		{"accumulation", p.Accumulation, 1 << 20},
		{"replicas", p.Replicas, 1 << 12},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("backend: %s is %d, want 1 to %d", f.name, f.value, f.max)
		}
	}
	if p.SequencesPerPack < 0 || p.SequencesPerPack > 1 && (p.Head.Task != bert.Pretraining || p.SequencesPerPack > p.Length) {
		return fmt.Errorf("backend: sequences_per_pack is %d for %s, want 0 or 1, or up to length %d for %s",
			p.SequencesPerPack, p.Head.Task, p.Length, bert.Pretraining)
	}
	if p.Head.Task == bert.Pretraining && (p.MaxPredictions < 1 || p.MaxPredictions > p.Length) {
		return fmt.Errorf("backend: max_predictions is %d, want 1 to length %d", p.MaxPredictions, p.Length)
	}
	if p.Head.Task == bert.MultipleChoice && p.MicroBatch%p.Head.Labels != 0 {
		return fmt.Errorf("backend: micro_batch is %d, want a multiple of num_labels %d: the choices of a question stay together",
			p.MicroBatch, p.Head.Labels)
	}
	return nil
}

// Memory belongs to the host. A session reads and writes it only during its calls.
type Memory struct {
	Layout *tensor.Layout // bert.Parameters of the program
	Params []float32      // [Layout.Len()]
	Grads  []float32      // [Layout.Len()]
}

// Step names a step and the denominators of its mean losses.
type Step struct {
	Step         int     // 1, 2, ...: keys the random streams; a resumed run goes on counting
	Sequences    int     // in the global batch
	MaskedWeight float64 // Σ masked_lm_weights over the global batch; Pretraining only
	LabelWeight  float64 // labelled tokens of the global batch; TokenClassification only
	// NextSentenceWeight is Σ next_sentence_weights over the global batch, which counts the sequences of packed rows;
	// 0 where rows are not packed.
	NextSentenceWeight float64
}

// StepResult is the outcome of a step.
type StepResult struct {
	Losses bert.Losses // summed over the global batch
	Finite bool        // false: a gradient is infinite or NaN; the step must be skipped
	// GradientNorm is the optimizer.Norm of the gradients if it is known, as where a host has checked a plugin's
	// gradients; 0 otherwise.
	GradientNorm float64
	LossScale    float64 // of this step, 1 if none
	Overflows    int64   // values that left the range of the number format, where the backend counts them
	Phases       []Phase // measured times, in order
	Invalid      int64   // results that are not a number, where the backend counts them
	// Schedule is what the devices did. It is nil where there is no pipeline, and after the first step of a session: every
	// step has the same.
	Schedule *Schedule
	// Quantised says what narrow formats did to the operands of products, where InspectOption asked for this step.
	Quantised []Quantised
}

// Schedule is what the devices of one replica did in a step. A stage is a row of units of the
// model that a device runs forward, backward, or both ways.
type Schedule struct {
	Name      string           `json:"name"` // for example grouped
	Recompute string           `json:"recompute"`
	Stages    []ScheduledStage `json:"stages"`
	Fill      int              `json:"fill"`   // cycles at the beginning in which some stages have no work
	Drain     int              `json:"drain"`  // cycles at the end
	Cycles    [][]int          `json:"cycles"` // [cycle][stage]: the micro-batch that the stage worked on, -1 for none
}

// ScheduledStage is a stage of a pipeline.
type ScheduledStage struct {
	Device   int      `json:"device"`
	Forward  bool     `json:"forward,omitempty"`
	Backward bool     `json:"backward,omitempty"`
	Units    []string `json:"units"`
	Stash    int      `json:"stash"` // micro-batches whose activations it has room for
}

// Phase is a measured part of a step: forward, backward, reduction ...
type Phase struct {
	Name    string
	Seconds float64
}

// Evaluation says what an evaluation computes.
type Evaluation struct {
	Outputs []string // see Outputs
	Labels  bool     // the batches have labels, and losses are computed
}

// Outputs are named results of one batch, row-major, with their shapes. The names, all float32:
//
//	embeddings, layer.0, layer.1, ..., sequence_output  [B, S, H]
//	pooler_output                                        [B, H]
//	mlm_logits [B, P, V]   nsp_logits [B, 2]             Pretraining
//	start_logits, end_logits [B, S]                      QuestionAnswering
//	logits [B, labels], [B, 1]                           Classification, MultipleChoice
//	logits [B, S, labels]                                TokenClassification; 0 for tokens that attention masks out
//
// Packed rows have B·Q sequences in place of B in pooler_output and nsp_logits.
type Outputs map[string]Output

// Output is one result.
type Output struct {
	Shape  tensor.Shape
	Values []float32
}

// Errors that a host handles by kind.
var (
	ErrOutOfMemory = errors.New("out of memory")
	ErrUnsupported = errors.New("unsupported")
)

// Clock measures the phases of a step.
type Clock struct {
	phases []Phase
	last   time.Time
}

// Start begins the first phase.
func (c *Clock) Start() { c.last = time.Now() }

// Lap ends a phase and begins the next; times of the same name add up.
func (c *Clock) Lap(name string) {
	now := time.Now()
	d := now.Sub(c.last).Seconds()
	c.last = now
	for i := range c.phases {
		if c.phases[i].Name == name {
			c.phases[i].Seconds += d
			return
		}
	}
	c.phases = append(c.phases, Phase{name, d})
}

// Phases returns the measured phases.
func (c *Clock) Phases() []Phase { return c.phases }
