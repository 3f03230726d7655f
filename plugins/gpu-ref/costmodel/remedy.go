package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/machine"
	"harness.invalid/plugins/gpu-ref/execution"
)

// remedy looks for what makes a program fit: smaller micro-batches, activations computed again, a GPU with more
// memory. It changes options and reads them as a user's are read.
func remedy(
	p backend.Program, plan execution.Plan, sys *System, on backend.Machine, c constants,
) (string, *backend.Remedy) {
	var micro, again, larger []machine.Change
	for _, n := range machine.Smaller(&p) {
		words := fmt.Sprintf("a micro-batch of %d instead of %d", n, p.MicroBatch)
		micro = append(micro, machine.Change{Words: words, Apply: func(p *backend.Program) {
			p.MicroBatch, p.Accumulation = n, p.Accumulation*p.MicroBatch/n
		}})
	}
	if !plan.Checkpointing() {
		options := map[string]string{"checkpoint_activations": "true"}
		again = append(again, machine.Change{Words: "activation checkpointing", Options: options})
	}
	systems := map[string]*System{}
	for _, name := range Systems.Names() {
		if other, err := Systems.Load(name); err == nil && other.Chip.MemoryBytes > sys.Chip.MemoryBytes {
			systems[name] = other
			larger = append(larger, machine.Change{Words: "a larger GPU", Options: map[string]string{"system": name}})
		}
	}
	rate := func(p backend.Program) (float64, bool) {
		plan, err := execution.Parse(&p)
		if err != nil {
			return 0, false
		}
		at := sys
		if other := systems[p.Options["system"]]; other != nil {
			at = other
		}
		m, err := newModel(p, plan, at, on, c)
		if err != nil {
			return 0, false
		}
		e := m.time()
		e.Memory = m.memory()
		return e.SequencesPerSecond, e.Fits()
	}
	words, found := machine.Remedy(p, [][]machine.Change{micro, again}, rate)
	if found == nil {
		words, found = machine.Remedy(p, [][]machine.Change{micro, again, larger}, rate)
	}
	if found == nil {
		return "a smaller model or shorter sequences: no settings that this model knows", nil
	}
	return words, found
}
