package costmodel

import (
	"fmt"
	"testing"

	"harness.invalid/core/machine"
	"harness.invalid/core/machine/machinetest"
	"harness.invalid/core/optimizer"
	"harness.invalid/plugins/gpu-ref/execution"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
)

// TestPublished holds the model against published.yaml. With -update it fits constants.yaml first and writes the
// table of docs/machines.md.
func TestPublished(t *testing.T) {
	machinetest.Check(t, machinetest.Model{
		Name: "gpu-ref", Checked: *published(), Constants: "constants.yaml", Document: "../../../docs/machines.md",
		Start: []float64{0.8, 10, 0.05}, Fitted: []float64{fitted().MatmulEfficiency, fitted().ElementsPerCycle, fitted().SQuADSeconds},
		Write: func(c []float64) string {
			return fmt.Sprintf("# Written by go generate from published.yaml. What they are: constants.go.\n"+
				"matmul_efficiency: %g\nelements_per_cycle: %g\nsquad_seconds: %g\n", c[0], c[1], c[2])
		},
		Optimizers: map[string]optimizer.Optimizer{"lamb": lamb.New(), "adamw": adamw.New()},
		SequencesPerSecond: func(r *machine.Row, update optimizer.Cost, c []float64) (float64, error) {
			program, err := r.Program()
			if err != nil {
				return 0, err
			}
			system, err := Systems.Load(r.System)
			if err != nil {
				return 0, err
			}
			tried := constants{MatmulEfficiency: c[0], ElementsPerCycle: c[1], SQuADSeconds: c[2]}
			e, err := estimate(program, execution.Plan{LengthBins: 64}, system, r.Machine(update), tried)
			return e.SequencesPerSecond, err
		},
	})
}
