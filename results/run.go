// Package results is what runs leave behind: records on disk, and reading them back.
//
// A run is a folder of plain files:
//
//	run.json           what the run is of: recipe, fingerprint, data, backend, optimizer, seed
//	recipe.yaml        the resolved recipe, with the options of backends and optimizers
//	environment.json   machine, program and plugins, at the start
//	segments.jsonl     the same each time that the run was resumed; absent until then
//	steps.jsonl        a line for each step
//	evaluations.jsonl  a line for each evaluation
//	result.json        the end: final metrics and times; absent while the run goes on
//	tags.json          words that people put on the run; absent until the first one
//	checkpoints/       core/checkpoint's
//
// and whatever a task writes: PHASE.schedule.json (what the devices of a pipeline did in which cycle),
// PHASE.predictions.json, and PHASE.scores.json with the score of each example. Lines go to the operating
// system at once and to the disk with each checkpoint; all other files are renamed into place. A process that dies
// loses at most the line that it was writing; a power failure loses what came after the last checkpoint.
//
// Times in this package are measured, in seconds of wall time. Those of a machine model are called modelled and are
// never added to the others.
//
// What follows from records is not here: results/verdict compares runs, results/regression checks them against
// baselines, results/scoring applies the rules of benchmarks, results/index finds them.
package results

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"harness.invalid/core/filename"
)

// Identity is what a run is of. Runs with the same fingerprint and data can be compared.
type Identity struct {
	Recipe      string `json:"recipe"`
	Fingerprint string `json:"fingerprint"`
	DataDigest  string `json:"data_digest"`
	// Start is the digest of the parameters of the model that the recipe starts from; empty: it starts from initial
	// values. It differs between kernels that round differently, and so is not part of the fingerprint.
	Start     string `json:"start,omitempty"`
	Backend   string `json:"backend"` // a recipe.Spec, as it was asked for
	Precision string `json:"precision"`
	Optimizer string `json:"optimizer"` // a recipe.Spec
	Seed      uint64 `json:"seed"`
}

// Arm is one column of a comparison: what differs between runs apart from the seed.
type Arm struct {
	Backend   string `json:"backend"`
	Optimizer string `json:"optimizer"`
}

// String is BACKEND/OPTIMIZER.
func (a Arm) String() string { return a.Backend + "/" + a.Optimizer }

// FileName is BACKEND-OPTIMIZER as part of a file's name. Options are shown with "-" for all characters but letters,
// digits, "." and "-", and followed by a digest, which keeps different arms apart.
func (a Arm) FileName() string { return fileName(a.Backend) + "-" + fileName(a.Optimizer) }

func fileName(spec string) string {
	if !strings.Contains(spec, "?") {
		return strings.ReplaceAll(spec, ":", "-")
	}
	const shown = 64 // characters, since file systems limit names to 255 bytes
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' {
			return c
		}
		return '-'
	}, spec)
	return fmt.Sprintf("%.*s-%.4x", shown, name, sha256.Sum256([]byte(spec)))
}

// checkNames makes sure that the names in a run.json, which may come from anybody, can become parts of paths.
func (id Identity) checkNames() error {
	if err := filename.CheckPath(id.Recipe); err != nil {
		return fmt.Errorf("recipe: %w", err)
	}
	for _, spec := range []string{id.Backend, id.Optimizer} {
		if err := filename.Check(fileName(spec)); err != nil {
			return fmt.Errorf("backend %q, optimizer %q: %w", id.Backend, id.Optimizer, err)
		}
	}
	return nil
}

// Arm is the arm that the run belongs to.
func (id Identity) Arm() Arm { return Arm{id.Backend, id.Optimizer} }

// Metrics are values by the names of recipe.Metrics; a metric of one phase is PHASE.NAME. Runs that diverged have
// NaN and infinities.
type Metrics map[string]float64

// Step is one line of steps.jsonl.
type Step struct {
	Phase        string  `json:"phase"`
	Step         int     `json:"step"`       // of the phase, from 1
	TotalStep    int     `json:"total_step"` // of the run, from 1
	Metrics      Metrics `json:"metrics"`    // of the global batch, with dropout
	LearningRate Number  `json:"learning_rate"`
	LossScale    Number  `json:"loss_scale"`
	Finite       bool    `json:"finite"` // false: the step was skipped
	GradientNorm Number  `json:"gradient_norm"`
	Overflows    int64   `json:"overflows,omitempty"`
	Invalid      int64   `json:"invalid,omitempty"` // results that were not a number
	Sequences    int     `json:"sequences"`
	// Quantised says what narrow formats did to the operands of products, where the backend was asked for it.
	Quantised []Quantised `json:"quantised,omitempty"`
	// MeasuredSeconds by part of the step: data, forward, backward, optimizer ...; total is the whole.
	MeasuredSeconds map[string]float64 `json:"measured_seconds"`
	// ModelledSeconds are the step's on the system that the backend models. The others are sums up to this step:
	// over the phase, and over the run. 0: there is no model; for the run: a phase so far had none.
	ModelledSeconds      float64 `json:"modelled_seconds,omitempty"`
	ModelledPhaseSeconds float64 `json:"modelled_phase_seconds,omitempty"`
	ModelledTotalSeconds float64 `json:"modelled_total_seconds,omitempty"`
}

// Evaluation is one line of evaluations.jsonl.
type Evaluation struct {
	Phase           string  `json:"phase"`
	Step            int     `json:"step"`
	TotalStep       int     `json:"total_step"`
	Metrics         Metrics `json:"metrics"`
	Sequences       int     `json:"sequences"`
	MeasuredSeconds float64 `json:"measured_seconds"` // of the evaluation
	TrainingSeconds float64 `json:"training_seconds"` // measured, of the phase up to here without evaluations and checkpoints
}

// Status is how a run ended.
type Status string

// How a run can end.
const (
	Complete Status = "complete"
	Stopped  Status = "stopped" // by the user; can be resumed
	Failed   Status = "failed"  // Result.Error says why
	// Unfinished is what a comparison calls a run without a result: it goes on, or broke off.
	Unfinished Status = "unfinished"
	// Running and BrokenOff are runs without a result, as Run.State tells them apart.
	Running   Status = "running"
	BrokenOff Status = "broken off"
)

// Result is the end of a run.
type Result struct {
	Status Status `json:"status"`
	Error  string `json:"error,omitempty"`
	// Metrics at the end: PHASE.NAME for every phase, and NAME for the last phase that measures it.
	Metrics Metrics       `json:"metrics"`
	Phases  []PhaseResult `json:"phases"`
	// MeasuredSeconds by phase and in all (total), resumed parts added up.
	MeasuredSeconds map[string]float64 `json:"measured_seconds"`
	Steps           int                `json:"steps"`
	Skipped         int                `json:"skipped"`
	BatchDigest     string             `json:"batch_digest"` // of all batches in order
	// Notes are doubts that did not stop the run, a sentence each. Tables print them as footnotes.
	Notes       []string  `json:"notes,omitempty"`
	Started     time.Time `json:"started"`
	Finished    time.Time `json:"finished"`
	Record      *Mark     `json:"record,omitempty"`       // its lines at the end; nil: written by an earlier version
	LoadAverage []float64 `json:"load_average,omitempty"` // 1, 5 and 15 minutes, at the end
}

// PhaseResult is the end of a phase.
type PhaseResult struct {
	Name      string  `json:"name"`
	Steps     int     `json:"steps"`
	Skipped   int     `json:"skipped"`
	Sequences int64   `json:"sequences"`
	Metrics   Metrics `json:"metrics"`
	// Floors are what a model that ignores its input gets on the phase's evaluation set, by metric; empty in runs of
	// older versions.
	Floors Metrics `json:"floors,omitempty"`
	// MeasuredSeconds of the phase: training and its parts, evaluation, checkpoint ...; total is the whole.
	MeasuredSeconds map[string]float64 `json:"measured_seconds"`
	Target          *Reached           `json:"target,omitempty"`
	// PeakMemoryBytes is the most memory that each process had resident up to the end of the phase, measured, by
	// process: host, backend, optimizer NAME. Shared memory counts in each process that touched it. Empty: the
	// system does not tell.
	PeakMemoryBytes map[string]int64 `json:"peak_memory_bytes,omitempty"`
	Best            *Best            `json:"best,omitempty"` // nil: evaluations were not compared
	// System is the machine whose time is modelled; empty: there is no model. ModelledSeconds covers the steps,
	// without evaluations.
	System          string  `json:"system,omitempty"`
	ModelledSeconds float64 `json:"modelled_seconds,omitempty"`
	// ModelledConfidence is that of the modelled sequences a second; nil: the model states none.
	ModelledConfidence *Confidence `json:"modelled_confidence,omitempty"`
}

// Confidence is how sure a modelled figure is: a backend.Confidence.
type Confidence struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"`
	Inside bool    `json:"inside"` // whether the program is like those that the interval was checked on
	Why    string  `json:"why"`
}

// Outside follows a modelled figure of a program that is unlike all that the model was checked on.
const Outside = " (outside)"

// Of is how sure a modelled figure is, in a text that follows it: its interval, or Outside. A model that states no
// confidence was checked on nothing.
func (c *Confidence) Of(figure float64) string {
	if c == nil || !c.Inside {
		return Outside
	}
	return fmt.Sprintf(" ±%.0f%%", 100*(c.High/figure-1))
}

// Best is the best evaluation of a phase that compares them.
type Best struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Step   int     `json:"step"`
}

// SequencesPerSecond is the measured rate of training, without evaluations, checkpoints and the start of plugins;
// 0: not known.
func (p PhaseResult) SequencesPerSecond() float64 {
	if t := p.MeasuredSeconds[TrainingSeconds]; t > 0 {
		return float64(p.Sequences) / t
	}
	return 0
}

// The names of measured times that every run has.
const (
	TrainingSeconds = "training" // of a phase: its steps, with the wait for data
	TotalSeconds    = "total"    // of a step, a phase or a run
)

// Reached says when a phase reached the recipe's target.
type Reached struct {
	Metric          string  `json:"metric"`
	Value           float64 `json:"value"`
	Step            int     `json:"step"`             // of the first evaluation that reached it; 0: none did
	MeasuredSeconds float64 `json:"measured_seconds"` // of training up to there
	ModelledSeconds float64 `json:"modelled_seconds,omitempty"`
}

// AddPhase adds the end of a phase: its metrics under both names, its steps and its time.
func (r *Result) AddPhase(p PhaseResult) {
	if r.Metrics == nil {
		r.Metrics = Metrics{}
	}
	if r.MeasuredSeconds == nil {
		r.MeasuredSeconds = map[string]float64{}
	}
	for name, value := range p.Metrics {
		r.Metrics[name] = value
		r.Metrics[p.Name+"."+name] = value
	}
	r.Phases = append(r.Phases, p)
	r.Steps += p.Steps
	r.Skipped += p.Skipped
	r.MeasuredSeconds[p.Name] += p.MeasuredSeconds[TotalSeconds]
	r.MeasuredSeconds[TotalSeconds] += p.MeasuredSeconds[TotalSeconds]
}

// Number is a float64 that encodes as JSON even if it is not finite: as "NaN", "Infinity" or "-Infinity".
type Number float64

// MarshalJSON writes the shortest number that reads back equal, or one of the three words.
func (n Number) MarshalJSON() ([]byte, error) {
	switch v := float64(n); {
	case math.IsNaN(v):
		return []byte(`"NaN"`), nil
	case math.IsInf(v, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(v)
	}
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"NaN"`:
		*n = Number(math.NaN())
	case `"Infinity"`:
		*n = Number(math.Inf(1))
	case `"-Infinity"`:
		*n = Number(math.Inf(-1))
	default:
		var v float64
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("%s is not a number, \"NaN\", \"Infinity\" or \"-Infinity\"", text)
		}
		*n = Number(v)
	}
	return nil
}

// MarshalJSON writes the values as Number does.
func (m Metrics) MarshalJSON() ([]byte, error) {
	numbers := make(map[string]Number, len(m))
	for name, v := range m {
		numbers[name] = Number(v)
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Metrics) UnmarshalJSON(text []byte) error {
	var numbers map[string]Number
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	*m = make(Metrics, len(numbers))
	for name, v := range numbers {
		(*m)[name] = float64(v)
	}
	return nil
}
