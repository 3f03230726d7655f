package costmodel

import (
	"fmt"
	"strconv"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/machine"
	"harness.invalid/plugins/ipu/execution"
)

// mostIPUs of a replica that are looked at.
const mostIPUs = 16

// remedy looks for what makes a program fit: state off the chip, more recomputation, shares of the state, fewer
// micro-batches in the pipeline, embeddings in parts, smaller micro-batches, another pipeline, and phases where nothing
// else does. It changes options and reads them as a user's are read.
func remedy(
	p backend.Program, plan execution.Plan, sys *System, on backend.Machine, n *parameters, c *planner,
) (string, *backend.Remedy) {
	rate := func(p backend.Program) (float64, bool) {
		plan, err := execution.Parse(&p)
		if err != nil {
			return 0, false
		}
		m, err := newModel(p, plan, sys, on, n, c)
		if err != nil || m.hopeless() {
			return 0, false
		}
		e := m.fastest()
		return e.SequencesPerSecond, e.Fits()
	}
	kinds := changes(&p, &plan, sys)
	words, found := machine.Remedy(p, kinds, rate)
	if found == nil {
		words, found = machine.Remedy(p, append(kinds, phased(&plan, sys)), rate)
	}
	if found == nil {
		return "a smaller model or shorter sequences: no settings that this model knows", nil
	}
	return words, found
}

// hopeless reports whether a program does not fit however its products are computed, without planning them.
func (m *model) hopeless() bool {
	open := m.plan
	defer func() { m.plan = open }()
	for _, m.plan = range m.closed() {
		stages, most := m.cut(), 0.
		if m.plan.LayersPerPhase > 0 {
			most = m.heldPhased(stages).total()
		} else {
			for d := range m.plan.Devices() {
				most = max(most, m.held(stages, d).total())
			}
		}
		if most < float64(m.system.Chip.SRAMBytes()) {
			return false
		}
	}
	return true
}

// option is a change of one option.
func option(words, name, value string) machine.Change {
	return machine.Change{Words: words, Options: map[string]string{name: value}}
}

// changes are those that a program has not made yet.
func changes(p *backend.Program, plan *execution.Plan, sys *System) [][]machine.Change {
	var state, again, shares, order, parts, micro []machine.Change
	if plan.State == execution.OnChip {
		state = append(state, option("the optimizer's state in Streaming Memory", "optimizer_state", string(execution.OffChip)))
	}
	if !plan.OpenRecompute && plan.Recompute != bert.RecomputeLayer { // left open, it is tried anyhow
		words := "the inputs of layers kept and the rest computed again"
		again = append(again, option(words, "recomputation", string(bert.RecomputeLayer)))
	}
	if plan.OpenRecompute || plan.Recompute != bert.RecomputeStage {
		words := "the inputs of stages kept and the rest computed again"
		again = append(again, option(words, "recomputation", string(bert.RecomputeStage)))
	}
	if !plan.Sharded && p.Replicas > 1 {
		shares = append(shares, option("the optimizer's state shared out over the replicas", "replicated_tensor_sharding", "true"))
	}
	if plan.Schedule == emulator.Grouped {
		order = append(order, option("the schedule interleaved", "schedule", string(emulator.Interleaved)))
	}
	if p.Head.Task == bert.Pretraining {
		for _, n := range []int{5, 20} {
			if n > plan.EmbeddingParts {
				parts = append(parts, option(fmt.Sprintf("embeddings in %d parts", n), "embedding_serialization", strconv.Itoa(n)))
			}
		}
	}
	for _, n := range machine.Smaller(p) {
		words := fmt.Sprintf("a micro-batch of %d instead of %d", n, p.MicroBatch)
		micro = append(micro, machine.Change{Words: words, Apply: func(p *backend.Program) {
			p.MicroBatch, p.Accumulation = n, p.Accumulation*p.MicroBatch/n
		}})
	}
	return [][]machine.Change{state, again, shares, order, parts, micro, cuts(p, plan, sys)}
}

// cuts are other pipelines.
func cuts(p *backend.Program, plan *execution.Plan, sys *System) []machine.Change {
	var list []machine.Change
	for n := 1; n <= min(mostIPUs, sys.IPUs, p.Model.NumHiddenLayers); n *= 2 {
		layers := execution.Spread(p.Model.NumHiddenLayers, n).String()
		isPhased := plan.LayersPerPhase > 0
		if layers == plan.Layers.String() && !isPhased || isPhased && n == 1 {
			continue
		}
		options := otherIPUs(plan, map[string]string{"pipeline": layers})
		if isPhased {
			options["execution"] = "pipelined"
		}
		list = append(list, machine.Change{Words: layersOn(layers, n), Options: options, Apply: func(p *backend.Program) {
			onto(p, sys.IPUs/n)
		}})
	}
	return list
}

// phased are executions in phases, of fewer layers than before.
func phased(plan *execution.Plan, sys *System) []machine.Change {
	var list []machine.Change
	for _, n := range []int{3, 2, 1} {
		if plan.LayersPerPhase > 0 && n >= plan.LayersPerPhase {
			continue
		}
		options := map[string]string{"pipeline": "all", "execution": "phased", "layers_per_phase": strconv.Itoa(n)}
		list = append(list, machine.Change{Words: phasesOf(n), Options: otherIPUs(plan, options), Apply: func(p *backend.Program) {
			onto(p, sys.IPUs)
		}})
	}
	return list
}

// otherIPUs completes options that cut the model anew: proportions of memory that were given are those of other IPUs.
func otherIPUs(plan *execution.Plan, options map[string]string) map[string]string {
	if len(plan.Proportions) > 1 {
		options["available_memory_proportion"] = "auto"
	}
	return options
}

func layersOn(layers string, ipus int) string {
	if ipus == 1 {
		return "all layers on one IPU"
	}
	return fmt.Sprintf("layers %s on %d IPUs", layers, ipus)
}

func phasesOf(layers int) string {
	if layers == 1 {
		return "phases of one layer"
	}
	return fmt.Sprintf("phases of %d layers", layers)
}

// onto puts a program that is cut anew over at most so many replicas, with the same global batch.
func onto(p *backend.Program, most int) {
	for n := min(p.Replicas, most); n >= 1; n-- {
		if p.Replicas%n == 0 {
			p.Accumulation, p.Replicas = p.Accumulation*p.Replicas/n, n
			return
		}
	}
}
