package machine

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/core/machine"
	"harness.invalid/core/machine/machinetest"
)

// settings are those of a published row.
func settings(t testing.TB, r *machine.Row) Settings {
	var s Settings
	for name, value := range r.Options {
		if name != "pipeline" {
			t.Fatalf("%s: option %s", r.Name, name)
		}
		for field := range strings.SplitSeq(value, ",") {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			s.LayersPerIPU = append(s.LayersPerIPU, n)
		}
	}
	return s
}

// TestPublished holds the model against published.yaml. With -update it fits constants.yaml first and writes the table of docs/machines.md.
func TestPublished(t *testing.T) {
	p := newPlanner(fitted)
	machinetest.Check(t, machinetest.Model{
		Name: "ipu", Rows: "published.yaml", Constants: "constants.yaml", Document: "../../../docs/machines.md",
		Start: []float64{1.2, 5e8}, Fitted: []float64{fitted.VectorCycles, fitted.HostBytesPerSecond},
		Write: func(c []float64) string {
			return fmt.Sprintf("# Written by go generate from published.yaml. What they are: constants.go.\nvector_cycles: %g\nhost_bytes_per_second: %g\n", c[0], c[1])
		},
		SequencesPerSecond: func(r *machine.Row, c []float64) (float64, error) {
			program, err := r.Program()
			if err != nil {
				return 0, err
			}
			system, err := Systems.Load(r.System)
			if err != nil {
				return 0, err
			}
			// Plans depend on the first constant alone.
			if p.VectorCycles != c[0] {
				p = newPlanner(constants{VectorCycles: c[0]})
			}
			p.HostBytesPerSecond = c[1]
			e, err := estimate(program, settings(t, r), system, r.Machine(), p)
			return e.SequencesPerSecond, err
		},
	})
}
