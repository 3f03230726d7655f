package ipu

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
	"harness.invalid/core/spelling"
)

// The range of loss scales: powers of two that FP16 gradients of any size can want.
const leastScale, greatestScale = 0x1p-24, 0x1p24

// scale is the loss scale. With a period it is automatic: halved where too many gradients were large, else doubled.
// Source: popart, willow/src/popx/op/lossscaleupdatex.cpp and transforms/automaticlossscaling.cpp (whose prose has it
// the other way round).
type scale struct {
	Scale     float64 `json:"loss_scale"`
	Steps     int     `json:"steps"` // since the scale was last looked at
	Large     int64   `json:"large"` // gradients in these steps
	All       int64   `json:"all"`
	period    int     // 0: static
	threshold float64 // share of large gradients
}

// newScale reads the options of the loss scale and, for an automatic one, asks the policy for the histogram.
func newScale(v *option.Values, policy *emulator.Policy) (scale, error) {
	period := v.Int("loss_scale_period", 1, 1<<30)
	edge := v.Float("loss_scale_bin_edge", 0x1p-24, 1)
	threshold := v.Float("loss_scale_threshold", 0, 1)
	initial := v.Float("initial_loss_scale", leastScale, greatestScale)
	if v.Text("loss_scale") == "auto" {
		policy.HistogramEdge = float32(edge) * numerics.FP16.Max()
		return scale{Scale: initial, period: period, threshold: threshold}, v.Err()
	}
	if err := v.Err(); err != nil {
		return scale{}, err
	}
	f, err := strconv.ParseFloat(v.Text("loss_scale"), 64)
	if err != nil || !(f >= leastScale && f <= greatestScale) {
		return scale{}, fmt.Errorf("option loss_scale is %q, want auto or a number from %g to %g",
			v.Text("loss_scale"), leastScale, greatestScale)
	}
	return scale{Scale: f}, nil
}

// update changes the scale after a step with this histogram.
func (s *scale) update(large, all int64) {
	if s.period == 0 {
		return
	}
	s.Steps++
	s.Large += large
	s.All += all
	if s.Steps < s.period {
		return
	}
	factor := 2.0
	if float64(s.Large) > s.threshold*float64(s.All) {
		factor = 0.5
	}
	s.Scale = min(max(s.Scale*factor, leastScale), greatestScale)
	s.Steps, s.Large, s.All = 0, 0, 0
}

// staticState is what a session with a static scale saves.
const staticState = "{}"

func (s *scale) save() ([]byte, error) {
	if s.period == 0 {
		return []byte(staticState), nil
	}
	return json.Marshal(s)
}

// load restores what save returned. A run may change between a static and an automatic scale; what does not apply is
// ignored.
func (s *scale) load(state []byte) error {
	var read scale
	if err := json.Unmarshal(state, &read); err != nil {
		return fmt.Errorf("state of %d bytes, want that of an ipu session: %w", len(state), err)
	}
	if s.period == 0 || string(state) == staticState {
		return nil
	}
	if !(read.Scale >= leastScale && read.Scale <= greatestScale) || read.Steps < 0 || read.Large < 0 || read.All < read.Large {
		return fmt.Errorf("state has loss scale %g after %d steps with %d of %d large gradients, want a scale from %g to %g "+
			"and counts of at least 0",
			read.Scale, read.Steps, read.Large, read.All, leastScale, greatestScale)
	}
	s.Scale, s.Steps, s.Large, s.All = read.Scale, read.Steps, read.Large, read.All
	return nil
}

// exceptions are those of FP_ICTL that end the run. Division by zero cannot happen: a softmax divides by a sum of at
// least 1, a norm by the root of a variance plus eps.
type exceptions struct{ inv, oflo bool }

func readExceptions(text string) (e exceptions, err error) {
	names := []string{"inv", "oflo", "none"}
	for name := range strings.SplitSeq(text, ",") {
		switch name {
		case "inv":
			e.inv = true
		case "oflo":
			e.oflo = true
		case "none":
		default:
			return e, fmt.Errorf("option fp_exceptions is %q, want none, or inv and oflo with a comma between%s", text, spelling.Hint(name, names))
		}
	}
	return e, nil
}

// check is the error of a step with exceptions.
func (e exceptions) check(step int, r backend.StepResult) error {
	if e.inv && r.Invalid > 0 || e.oflo && r.Overflows > 0 {
		return fmt.Errorf("step %d: floating point exceptions: %d results too large for FP16, %d not a number "+
			"(option fp_exceptions)", step, r.Overflows, r.Invalid)
	}
	return nil
}
