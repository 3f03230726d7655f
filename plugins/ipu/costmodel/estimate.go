// Package costmodel models time and memory of BERT on Graphcore's IPUs.
//
// A model prices the plan that a program runs by (plugins/ipu/execution): its stages, their order, what they keep and
// what they compute again. A stage takes the time of its operators: matrix products laid over the tiles by the
// cheapest plan that fits into their memory, with the cycles of the matrix unit by the shape of a tile's block, the
// bytes that tiles exchange over what they can exchange, and passes over elements for everything else. A step is the
// pipeline's cycles, each as long as its slowest IPU and the copies between IPUs, then a ring over the replicas, the
// update with the optimizer's state from Streaming Memory, and the host's part.
//
// What a plan leaves open is chosen so that the program fits and is fast; the estimate lists such choices as
// assumptions.
//
// docs/machines.md compares the model with published throughput and says what it cannot explain.
package costmodel

import (
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/plugins/ipu/execution"
)

// Estimate models a step of a program that runs by a plan.
func Estimate(p backend.Program, plan execution.Plan, sys *System, on backend.Machine) (backend.Estimate, error) {
	return estimate(p, plan, sys, on, newPlanner(fitted()))
}

// estimate takes the fastest choices with which the program fits, and the smallest when it fits with none.
func estimate(
	p backend.Program, plan execution.Plan, sys *System, on backend.Machine, c *planner,
) (backend.Estimate, error) {
	n, err := readParameters(&p, &on.Update)
	if err != nil {
		return backend.Estimate{}, err
	}
	m, err := newModel(p, plan, sys, on, n, c)
	if err != nil {
		return backend.Estimate{}, err
	}
	e := m.fastest()
	if !e.Fits() {
		e.Advice, e.Remedy = remedy(p, plan, sys, on, n, c)
	}
	e.Confidence = published().Confidence(&p, sys.Chip.Name, e.SequencesPerSecond)
	return e, nil
}

// fastest is the estimate for the best way to close what the plan leaves open.
func (m *model) fastest() backend.Estimate {
	var best backend.Estimate
	open := m.plan
	defer func() { m.plan = open }()
	for _, closed := range m.closed() {
		m.plan = closed
		stages := m.stages()
		e := m.time(stages)
		e.Memory, e.OffChip = m.memory(stages), m.offChip(stages)
		e.Assumptions = m.assumptions(&open)
		if best.StepSeconds == 0 || better(&e, &best) {
			best = e
		}
	}
	return best
}

// proportions are tried within the bounds that are given. Published configurations have 0.05 to 0.4.
var proportions = []float64{0.4, 0.25, 0.2, 0.15, 0.1, 0.05}

// publishedProportion is the bound where none is given: that of published configurations of BERT-Large, which have less
// for long sequences. Source: graphcore/examples, PopART and PyTorch: 0.25 at 128 tokens, 0.19 at 512.
func publishedProportion(length int) float64 {
	if length > 384 {
		return 0.19
	}
	return 0.25
}

// closed lists the ways to decide all that the plan leaves open.
func (m *model) closed() []execution.Plan {
	plan := m.plan
	states, kinds := []execution.State{plan.State}, []bert.Recompute{plan.Recompute}
	bounds := plan.Proportions
	if bounds == nil {
		bounds = []float64{publishedProportion(m.program.Length)}
	}
	var shares [][]float64
	for _, p := range proportions {
		within := slices.Clone(bounds)
		for i := range within {
			within[i] = min(within[i], p)
		}
		shares = append(shares, within)
	}
	switch {
	case plan.LayersPerPhase > 0:
		states = []execution.State{execution.OffChip}
	case plan.State == execution.AnyState:
		states = []execution.State{execution.OnChip, execution.OffChip}
	}
	switch {
	case !plan.OpenRecompute:
	case plan.LayersPerPhase > 0:
		kinds = []bert.Recompute{bert.RecomputeNone, bert.RecomputeLayer, bert.RecomputeStage}
	case plan.Devices() > 1: // as in the published configurations
		kinds = []bert.Recompute{bert.RecomputeLayer}
	default:
		kinds = []bert.Recompute{bert.RecomputeNone, bert.RecomputeLayer}
	}
	var list []execution.Plan
	for _, plan.Proportions = range shares {
		for _, plan.State = range states {
			for _, plan.Recompute = range kinds {
				list = append(list, plan)
			}
		}
	}
	return list
}

// better prefers what fits, then what is faster; of two that do not fit, the smaller.
func better(a, b *backend.Estimate) bool {
	switch fa, fb := a.Fits(), b.Fits(); {
	case fa != fb:
		return fa
	case fa:
		return a.StepSeconds < b.StepSeconds
	}
	return largest(a) < largest(b)
}

func largest(e *backend.Estimate) int64 {
	var most int64
	for _, d := range e.Memory {
		most = max(most, d.Total())
	}
	return most
}
