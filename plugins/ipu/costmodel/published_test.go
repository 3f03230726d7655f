package costmodel

import (
	"fmt"
	"testing"

	"harness.invalid/core/machine"
	"harness.invalid/core/machine/machinetest"
	"harness.invalid/core/optimizer"
	"harness.invalid/plugins/ipu/execution"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
)

// TestPublished holds the model against published.yaml. With -update it fits constants.yaml first and writes the
// table of docs/machines.md.
func TestPublished(t *testing.T) {
	planners := map[float64]*planner{} // plans depend on the first constant alone
	machinetest.Check(t, machinetest.Model{
		Name: "ipu", Checked: *published(), Constants: "constants.yaml", Document: "../../../docs/machines.md",
		Start: []float64{1.2, 5e8}, Fitted: []float64{fitted().VectorCycles, fitted().HostBytesPerSecond},
		Write: func(c []float64) string {
			return fmt.Sprintf("# Written by go generate from published.yaml. What they are: constants.go.\n"+
				"vector_cycles: %g\nhost_bytes_per_second: %g\n", c[0], c[1])
		},
		Optimizers: map[string]optimizer.Optimizer{"lamb": lamb.New(), "adamw": adamw.New()},
		SequencesPerSecond: func(r *machine.Row, update optimizer.Cost, c []float64) (float64, error) {
			program, err := r.Program()
			if err != nil {
				return 0, err
			}
			plan, err := execution.Parse(&program)
			if err != nil {
				return 0, err
			}
			system, err := Systems.Load(r.System)
			if err != nil {
				return 0, err
			}
			p := planners[c[0]]
			if p == nil {
				p = newPlanner(constants{VectorCycles: c[0]})
				planners[c[0]] = p
			}
			p.HostBytesPerSecond = c[1]
			e, err := estimate(program, plan, system, r.Machine(update), p)
			return e.SequencesPerSecond, err
		},
	})
}
