// Package backend is the contract between harness and a device that trains BERT.
//
// A Backend describes itself and opens sessions; a Session computes gradients of a program over memory that the
// host owns. Data flows from the host's batches through Step into the gradients; the host lets an optimizer change
// the parameters, and Commit lets the device take them over.
//
//	Describe  ->  Open  ->  Commit(0)  ->  ( Step  ->  optimizer  ->  Commit )*  ->  Evaluate*  ->  Save  ->  Close
//
// Built-in backends, third parties' and the client of a backend in another process all implement it.
// core/backend/backendtest holds any implementation against what is said here.
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
	// Describe tells what the backend is and takes. It is cheap and may be called at any time.
	Describe(ctx context.Context) (Info, error)
	// Open prepares the device for a program over the host's memory. A program that the backend can't run is an error
	// that says which field is wrong and what it takes instead; ErrOutOfMemory when the modelled or real device is too
	// small.
	Open(ctx context.Context, p Program, m Memory) (Session, error)
}

// Session is an opened program. Its calls come one at a time.
type Session interface {
	// Step runs forward and backward over one global batch and leaves in Memory.Grads the gradient of its mean loss:
	// FP32, unscaled, summed over micro-batches and replicas, every element set. The micro-batches come in the order
	// of their samples, MicroBatch sequences each.
	Step(ctx context.Context, s Step, batches iter.Seq2[*bert.Batch, error]) (StepResult, error)
	// Commit takes Memory.Params over into the device's own storage format, and writes back what the device really
	// keeps. It is called with step 0 before the first Step and after every change of the parameters by an optimizer.
	Commit(ctx context.Context, step int) error
	// Evaluate runs forward without dropout. It yields for each batch the outputs that were asked for by name (see
	// Outputs). Losses are summed over the batches when they carry labels.
	Evaluate(ctx context.Context, e Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(Outputs) error) (bert.Losses, error)
	// Save returns the session's private state (loss scaler, counters): a small opaque blob, enough together with the
	// parameters to go on with the same bits in another process. Load takes it back.
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
	// RepeatsSteps: Session.Step may come again with the number of the last one, after a Commit of other parameters,
	// for the gradient of the same batch there. Optimizers that ask for a second gradient need it.
	RepeatsSteps bool
}

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
	// Tolerance is the greatest relative error (norm of the difference over norm of the reference) that outputs and
	// gradients may have against float64 results on a small model without dropout; Reason says where it comes from.
	OutputTolerance, GradientTolerance float64
	Reason                             string
}

// Program is what a backend is asked to run: the model, the cut of the global batch, and the number format.
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
	// SequencesPerPack is how many sequences a row of a batch holds at most; 0 and 1: rows are not packed. Pretraining
	// only.
	SequencesPerPack int
}

// GlobalBatch is the number of sequences of one step.
func (p Program) GlobalBatch() int { return p.MicroBatch * p.Accumulation * p.Replicas }

// Validate reports the first field that no backend could run.
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

// Memory is the host's: a session reads and writes it during its calls only.
type Memory struct {
	Layout *tensor.Layout // bert.Parameters of the program
	Params []float32      // [Layout.Len()]
	Grads  []float32      // [Layout.Len()]
}

// Step names a step and the denominators of its mean losses.
type Step struct {
	Step         int     // 1, 2, ...: keys the random streams; a run that is resumed goes on counting
	Sequences    int     // in the global batch
	MaskedWeight float64 // Σ masked_lm_weights over the global batch; Pretraining only
	// NextSentenceWeight is Σ next_sentence_weights over the global batch, which counts the sequences of packed rows;
	// 0 where rows are not packed.
	NextSentenceWeight float64
}

// StepResult is what a step was like.
type StepResult struct {
	Losses bert.Losses // summed over the global batch
	Finite bool        // false: a gradient is infinite or NaN; the step must be skipped
	// GradientNorm is the optimizer.Norm of the gradients, where they were looked through anyway, as a host does with
	// those of a plugin; 0: not taken.
	GradientNorm float64
	LossScale    float64 // that was in force, 1 if none
	Overflows    int64   // values that left the range of the number format, where the backend counts them
	Phases       []Phase // measured times, in order
	Invalid      int64   // results that are not a number, where the backend counts them
	// Schedule is what the devices did. It is nil where there is no pipeline, and after the first step of a session: every
	// step has the same.
	Schedule *Schedule
}

// Schedule is the work of the devices of one replica in a step, as it was done. A stage is a row of units of the
// model that a device runs forward, backward, or both ways.
type Schedule struct {
	Name      string           `json:"name"` // such as grouped
	Recompute string           `json:"recompute"`
	Stages    []ScheduledStage `json:"stages"`
	Fill      int              `json:"fill"`   // cycles at the beginning in which not all stages have work
	Drain     int              `json:"drain"`  // cycles at the end
	Cycles    [][]int          `json:"cycles"` // [cycle][stage]: the micro-batch that the stage worked on, -1 for none
}

// ScheduledStage is a stage of a pipeline.
type ScheduledStage struct {
	Device   int      `json:"device"`
	Forward  bool     `json:"forward,omitempty"`
	Backward bool     `json:"backward,omitempty"`
	Units    []string `json:"units"`
	Stash    int      `json:"stash"` // micro-batches whose activations it keeps room for
}

// Phase is a measured part of a step: forward, backward, reduction ...
type Phase struct {
	Name    string
	Seconds float64
}

// Evaluation asks for outputs by name.
type Evaluation struct {
	Outputs []string // see Outputs
	Labels  bool     // the batches carry labels; losses are wanted
}

// Outputs are named results of one batch, row-major, with their shapes. The names, all float32:
//
//	embeddings, layer.0, layer.1, ..., sequence_output  [B, S, H]
//	pooler_output                                        [B, H]
//	mlm_logits [B, P, V]   nsp_logits [B, 2]             Pretraining
//	start_logits, end_logits [B, S]                      QuestionAnswering
//	logits [B, labels], [B, 1]                           Classification, MultipleChoice
//
// Packed rows have B·Q sequences in place of B in pooler_output and nsp_logits.
type Outputs map[string]Output

// Output is one result.
type Output struct {
	Shape  tensor.Shape
	Values []float32
}

// Errors that a host decides by.
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

// Phases returns what was measured.
func (c *Clock) Phases() []Phase { return c.phases }
