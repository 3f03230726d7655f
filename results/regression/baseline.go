// Package regression checks new runs against a baseline that people reviewed.
//
// In flow runs (results.Run) and a Baseline, a small JSON file. Out flows a Check for `harness check`: a list of
// facts that hold, have regressed, or are undecided. Facts of single runs are exact (check.go, exact.go): equal
// bits on equal kernels. Facts over seeds are tested against a tolerance (sampled.go, question.go).
package regression

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/core/jsonerror"
	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// Baseline is what later runs are checked against: a small file that people review.
type Baseline struct {
	Recipe      string     `json:"recipe"`
	Fingerprint string     `json:"fingerprint"`
	DataDigest  string     `json:"data_digest"`
	Note        string     `json:"note,omitempty"` // why it was changed last
	Saved       time.Time  `json:"saved"`
	Machine     Machine    `json:"machine"` // that times were measured on
	Alpha       float64    `json:"alpha"`
	Tolerances  Tolerances `json:"tolerances"`
	// Waivers let facts pass for a while although they do not hold.
	Waivers []Waiver      `json:"waivers"`
	Arms    []BaselineArm `json:"arms"`
}

// Machine is what times depend on.
type Machine struct {
	CPU     string `json:"cpu"`
	Threads int    `json:"threads"`
}

// Tolerances are the changes for the worse that do not matter.
type Tolerances struct {
	// Metrics are by PHASE.NAME, in the metric's units; from the recipe's margins.
	Metrics map[string]float64 `json:"metrics"`
	// FirstLoss and Losses are relative and apply between kernel paths that round differently: to the first loss of
	// a run, before any update, and to mean losses along its first phase, where rounding errors have grown.
	FirstLoss float64 `json:"first_loss"`
	Losses    float64 `json:"losses"`
	// StepsToTarget and StepSeconds are relative.
	StepsToTarget float64 `json:"steps_to_target"`
	StepSeconds   float64 `json:"step_seconds"`
}

// defaultTolerances are those of a new baseline: round numbers, not fitted ones, that people may change. Rounding
// alone moves a first loss by far less than a thousandth; what it grows to along the way stays within what other
// seeds do to a mean loss.
var defaultTolerances = Tolerances{FirstLoss: 1e-3, Losses: 0.03, StepsToTarget: 0.1, StepSeconds: 0.05}

// Waiver lets a fact pass until a day.
type Waiver struct {
	Fact   string `json:"fact"`  // name of the fact, with * for any letters
	Until  string `json:"until"` // 2027-01-31, that day included
	Reason string `json:"reason"`
}

// BaselineArm is an arm with its runs.
type BaselineArm struct {
	results.Arm
	Precision string        `json:"precision"`
	Runs      []BaselineRun `json:"runs"` // by seed
}

// BaselineRun is what a baseline keeps of a run.
type BaselineRun struct {
	Seed        uint64 `json:"seed"`
	Kernels     string `json:"kernels,omitempty"` // Environment.Kernels
	BatchDigest string `json:"batch_digest"`
	Start       string `json:"start,omitempty"` // digest of the model that the run starts from
	// LossDigest is the beginning of a SHA-256 over the bits of the losses of all steps.
	LossDigest string            `json:"loss_digest"`
	Phases     []BaselinePhase   `json:"phases"`
	Modelled   map[string]string `json:"modelled,omitempty"` // figures of a machine model, by PHASE.NAME, as JSON
}

// BaselinePhase is a phase of a run.
type BaselinePhase struct {
	Name    string          `json:"name"`
	Steps   int             `json:"steps"`
	Skipped int             `json:"skipped"`
	Metrics results.Metrics `json:"metrics"`
	// FirstLoss is the loss of the first step, Losses are means over equal parts of the phase.
	FirstLoss results.Number   `json:"first_loss"`
	Losses    []results.Number `json:"losses"`
	// StepsToTarget is interpolated between evaluations; nil if the phase has no target, Infinity if it was not
	// reached.
	StepsToTarget *results.Number `json:"steps_to_target,omitempty"`
	// FastestStepSeconds is the measured time of the fastest step (results.Curves); nil: times were left out.
	FastestStepSeconds *results.Number `json:"measured_fastest_step_seconds,omitempty"`
	// MedianStepSeconds is what earlier versions stored instead; it is read and never written.
	MedianStepSeconds *results.Number `json:"measured_step_seconds,omitempty"`
}

// lossParts is the number of mean losses that summarize a phase.
const lossParts = 16

// NewBaseline summarizes complete runs of one recipe. With times, it includes the fastest steps: they mean
// something only on the machine that they were measured on, with nothing else running.
func NewBaseline(runs []*results.Run, times bool) (*Baseline, error) {
	if len(runs) == 0 {
		return nil, errors.New("a baseline needs runs")
	}
	c, err := verdict.Compare(runs) // they must belong together
	if err != nil {
		return nil, err
	}
	first := runs[0]
	b := &Baseline{Recipe: first.Identity.Recipe, Fingerprint: first.Fingerprint, DataDigest: first.DataDigest,
		Saved:   time.Now().UTC().Truncate(time.Second),
		Machine: machineOf(first), Alpha: c.Alpha, Tolerances: defaultTolerances, Waivers: []Waiver{}}
	b.Tolerances.Metrics = verdict.Margins(first.Recipe)
	for _, a := range c.Arms {
		arm := BaselineArm{Arm: a.Arm, Precision: a.Precision}
		for _, r := range runs {
			if r.Arm() != a.Arm {
				continue
			}
			if r.Result == nil || r.Result.Status != results.Complete {
				return nil, fmt.Errorf("%s is not complete", r.Title())
			}
			if m := machineOf(r); times && m != b.Machine {
				return nil, fmt.Errorf("%s and %s were on different machines, so their times cannot be pooled: leave times out",
					first.Title(), r.Title())
			}
			s, err := baselineRun(r, times)
			if err != nil {
				return nil, err
			}
			arm.Runs = append(arm.Runs, *s)
		}
		slices.SortFunc(arm.Runs, func(x, y BaselineRun) int {
			if x.Seed < y.Seed {
				return -1
			}
			return 1
		})
		b.Arms = append(b.Arms, arm)
	}
	return b, nil
}

func machineOf(r *results.Run) Machine { return Machine{r.Environment.CPU, r.Environment.Threads} }

// baselineRun summarizes what a run recorded.
func baselineRun(r *results.Run, times bool) (*BaselineRun, error) {
	s := &BaselineRun{Seed: r.Seed, Kernels: r.Environment.Kernels, BatchDigest: r.Result.BatchDigest, Start: r.Start,
		Modelled: map[string]string{}}
	curves, err := r.Curves()
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for i, c := range curves {
		p := BaselinePhase{Name: c.Phase, FirstLoss: results.Number(math.NaN()), Losses: []results.Number{}}
		for _, l := range c.Loss {
			fmt.Fprintf(hash, "%s %d ", c.Phase, l.Step)
			if err := binary.Write(hash, binary.LittleEndian, math.Float64bits(l.Value)); err != nil {
				return nil, err
			}
		}
		if len(c.Loss) > 0 {
			p.FirstLoss = results.Number(c.Loss[0].Value)
			for _, part := range results.Thin(c.Loss, lossParts) {
				p.Losses = append(p.Losses, results.Number(part.Value))
			}
		}
		for _, done := range r.Result.Phases {
			if done.Name != c.Phase {
				continue
			}
			p.Steps, p.Skipped, p.Metrics = done.Steps, done.Skipped, done.Metrics
			leaves, err := results.Leaves(done)
			if err != nil {
				return nil, err
			}
			for name, value := range leaves {
				// How sure a figure is depends on what it was checked against, and not on the figure alone.
				if strings.Contains(name, "modelled") && !strings.HasPrefix(name, "modelled_confidence") {
					s.Modelled[c.Phase+"."+name] = value
				}
			}
		}
		if t := r.Recipe.Phases[i].Target; t != nil {
			m, _ := recipe.MetricNamed(t.Metric)
			p.StepsToTarget = new(results.Number(math.Inf(1)))
			if at, ok := results.FirstReach(c.Evaluations[t.Metric], t.Value, m.Higher); ok {
				p.StepsToTarget = &at.Step
			}
		}
		if times && c.FastestStepSeconds > 0 {
			p.FastestStepSeconds = new(results.Number(c.FastestStepSeconds))
		}
		s.Phases = append(s.Phases, p)
	}
	s.LossDigest = hex.EncodeToString(hash.Sum(nil))[:32]
	return s, nil
}

// ReadBaseline parses a baseline. Unknown keys are errors, since people edit the file.
func ReadBaseline(name string, text []byte) (*Baseline, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	b := &Baseline{}
	if err := dec.Decode(b); err != nil {
		return nil, fmt.Errorf("baseline %s: %w", name, jsonerror.Explain(text, err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("baseline %s: unexpected data after its end", name)
	}
	if err := b.validate(); err != nil {
		return nil, fmt.Errorf("baseline %s: %w", name, err)
	}
	return b, nil
}

func (b *Baseline) validate() error {
	if b.Fingerprint == "" || len(b.Arms) == 0 {
		return errors.New("it has no fingerprint or no arms: want a file that harness baseline save wrote")
	}
	if !(b.Alpha > 0 && b.Alpha < 0.5) {
		return fmt.Errorf("alpha is %g, want more than 0 and less than 0.5", b.Alpha)
	}
	for _, a := range b.Arms {
		if len(a.Runs) == 0 {
			return fmt.Errorf("arm %s has no runs", a.Arm)
		}
	}
	t := b.Tolerances
	for name, v := range map[string]float64{"first_loss": t.FirstLoss, "losses": t.Losses, "steps_to_target": t.StepsToTarget,
		"step_seconds": t.StepSeconds} {
		if !(v >= 0) {
			return fmt.Errorf("tolerances.%s is %g, want 0 or more", name, v)
		}
	}
	for i, w := range b.Waivers {
		if _, err := w.last(); err != nil || w.Fact == "" || w.Reason == "" {
			return fmt.Errorf("waiver %d (%q): want a fact, a reason and a last day such as 2027-01-31, not %q", i+1, w.Fact, w.Until)
		}
	}
	return nil
}

// last is the end of the waiver's last day.
func (w Waiver) last() (time.Time, error) {
	day, err := time.Parse(time.DateOnly, w.Until)
	return day.AddDate(0, 0, 1), err
}

// covers reports whether the waiver is about a fact.
func (w Waiver) covers(fact string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(w.Fact), `\*`, `.*`)
	ok, err := regexp.MatchString("^"+pattern+"$", fact)
	return err == nil && ok
}

// Set changes a tolerance: first_loss, losses, steps_to_target, step_seconds, or a metric by PHASE.NAME.
func (t *Tolerances) Set(name string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return fmt.Errorf("tolerance %s is %g, want 0 or more", name, v)
	}
	switch name {
	case "first_loss":
		t.FirstLoss = v
	case "losses":
		t.Losses = v
	case "steps_to_target":
		t.StepsToTarget = v
	case "step_seconds":
		t.StepSeconds = v
	default:
		if _, ok := t.Metrics[name]; !ok {
			return fmt.Errorf("tolerance %s: want first_loss, losses, steps_to_target, step_seconds or one of the recipe's margins: %s",
				name, strings.Join(slices.Sorted(maps.Keys(t.Metrics)), ", "))
		}
		t.Metrics[name] = v
	}
	return nil
}

// Save writes the baseline to a file.
func (b *Baseline) Save(path string) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(b)
	})
}
