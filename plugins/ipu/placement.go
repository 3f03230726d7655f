package ipu

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/option"
)

// wholeModel is the value of the option pipeline that puts everything on one IPU.
const wholeModel = "all"

// newPlan places the units of the model as the options say.
func newPlan(v *option.Values, c *bert.Config, h bert.Head) (emulator.Plan, error) {
	plan := emulator.Plan{
		Schedule:  emulator.Schedule(v.OneOf("schedule", emulator.Schedules()...)),
		Recompute: bert.Recompute(v.OneOf("recomputation", emulator.Recomputes()...)),
	}
	execution := v.OneOf("execution", "pipelined", "phased")
	perPhase := v.Int("layers_per_phase", 1, 1<<10)
	pipeline := v.Text("pipeline")
	if err := v.Err(); err != nil {
		return plan, err
	}
	var err error
	switch {
	case execution == "phased" && pipeline != wholeModel:
		return plan, fmt.Errorf("options execution=phased and pipeline=%s: phases follow each other on the same IPUs, want pipeline=%s", pipeline, wholeModel)
	case execution == "phased":
		plan.Schedule, plan.Stages = emulator.Sequential, phases(c, perPhase)
	case pipeline != wholeModel:
		plan.Stages, err = placement(pipeline, c, h)
	}
	return plan, err
}

// placement reads the number of layers on each IPU of a pipeline, halves allowed: n.5 ends between attention and feed-forward of a layer. The
// embeddings are on the first IPU. So are the heads of pre-training, as a last stage, because the decoder's weight is that of the embeddings; the
// heads of other tasks are on the last IPU.
func placement(pipeline string, c *bert.Config, h bert.Head) ([]emulator.Stage, error) {
	var stages []emulator.Stage
	unit, halves := 1, 0
	for i, text := range strings.Split(pipeline, ",") {
		layers, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		n := int(math.Round(2 * layers))
		if err != nil || float64(n) != 2*layers || n < 0 || n > 2*c.NumHiddenLayers || n == 0 && i > 0 {
			return nil, fmt.Errorf("option pipeline is %q: IPU %d has %q layers, want a number of whole or half layers (0 on the first IPU alone), such as 3,7,7,7", pipeline, i, text)
		}
		s := emulator.Stage{First: unit, End: unit + n, Device: i}
		if i == 0 {
			s.First = 0
		}
		stages = append(stages, s)
		unit, halves = unit+n, halves+n
	}
	if halves != 2*c.NumHiddenLayers {
		return nil, fmt.Errorf("option pipeline is %q: that is %g layers, the model has %d", pipeline, float64(halves)/2, c.NumHiddenLayers)
	}
	if last := len(stages) - 1; h.Task == bert.Pretraining && last > 0 {
		stages = append(stages, emulator.Stage{First: unit, End: unit + 1, Device: 0})
	} else {
		stages[last].End++
	}
	return stages, nil
}

// phases cuts the model into the phases of phased execution: embeddings, layers, heads.
func phases(c *bert.Config, layers int) []emulator.Stage {
	stages := []emulator.Stage{{First: 0, End: 1}}
	heads := c.Units() - 1
	for u := 1; u < heads; u += 2 * layers {
		stages = append(stages, emulator.Stage{First: u, End: min(heads, u+2*layers)})
	}
	return append(stages, emulator.Stage{First: heads, End: heads + 1})
}
