package costmodel

import (
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/machine/machinetest"
	"harness.invalid/plugins/optimizers/lamb"
)

// withLAMB is a machine on which LAMB updates the parameters of a program.
func withLAMB(t testing.TB, p backend.Program) backend.Machine {
	t.Helper()
	return backend.Machine{Update: machinetest.Update(t, lamb.New(), nil, p)}
}
