// Package costmodel models time and memory of BERT on NVIDIA's GPUs.
//
// A micro-batch is a list of kernels. A matrix product runs on the multiprocessors in blocks and waves, bound by
// arithmetic, cache or memory; everything else is bound by memory. The host submits the kernels, as its software does,
// and the slower of host and device sets the time. GPUs sum gradients by a ring within the node and one between nodes,
// in parallel with the last backward pass.
//
// docs/machines.md compares the model with published throughput and says what it cannot explain.
package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
	"harness.invalid/plugins/gpu-ref/execution"
)

// model is a program on a system, on its way to an estimate.
type model struct {
	program              backend.Program
	plan                 execution.Plan
	system               *System
	software             *software
	format               format
	flops                float64
	narrowFlops          float64 // of products whose operands are quantised
	memoryBytesPerSecond float64
	layout               *tensor.Layout // of the parameters
	update               optimizer.Cost
	packing              float64
	constants            constants
}

// Estimate models a step.
func Estimate(p backend.Program, plan execution.Plan, sys *System, on backend.Machine) (backend.Estimate, error) {
	return estimate(p, plan, sys, on, fitted())
}

func estimate(p backend.Program, plan execution.Plan, sys *System, on backend.Machine, c constants) (backend.Estimate, error) {
	m, err := newModel(p, plan, sys, on, c)
	if err != nil {
		return backend.Estimate{}, err
	}
	e := m.time()
	e.Memory = m.memory()
	if !e.Fits() {
		e.Advice, e.Remedy = remedy(p, plan, sys, on, c)
	}
	e.Confidence = published().Confidence(&p, sys.Chip.Name, e.SequencesPerSecond)
	return e, nil
}

func newModel(p backend.Program, plan execution.Plan, sys *System, on backend.Machine, c constants) (*model, error) {
	name := formatOf(p.Precision)
	flops, ok := sys.Chip.Flops[base(name)]
	narrowFlops := 0.
	if n := formats[name].narrow; n != nil && ok {
		narrowFlops, ok = sys.Chip.Flops[n.rate]
	}
	if !ok {
		return nil, fmt.Errorf("%s: %s does not compute in %s: %w", sys.Name, sys.Chip.Name, p.Precision, backend.ErrUnsupported)
	}
	if most := sys.Nodes * sys.Node.GPUs; p.Replicas > most {
		return nil, fmt.Errorf("%s: %d replicas take %d GPUs, the system has at most %d in %d nodes",
			sys.Name, p.Replicas, p.Replicas, most, sys.Nodes)
	}
	program, err := softwareNamed(p.Options[softwareOption])
	if err != nil {
		return nil, err
	}
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		return nil, err
	}
	if len(on.Update.Tensors) > 0 {
		if err := on.Update.Check(l); err != nil {
			return nil, err
		}
	}
	return &model{
		program: p, plan: plan, system: sys, software: program, format: formats[name], flops: flops, narrowFlops: narrowFlops,
		layout: l, update: on.Update, packing: max(1, on.Packing),
		memoryBytesPerSecond: sys.Chip.MemoryBytesPerSecond * sys.Chip.MemoryEfficiency, constants: c,
	}, nil
}

// formatOf is the format in which a precision computes.
func formatOf(precision string) string {
	if precision == "fp16-o2" {
		return "fp16"
	}
	return precision
}

// lengths lists the lengths of the micro-batches, all equally frequent. Sequence lengths are assumed uniform from
// the shortest to the longest, so that their mean at 512 tokens is half of that: Wikipedia's packing factor is 2.0
// there, 1.7 at 384 and 1.17 at 128 tokens (Krell et al. 2021, arXiv:2107.02027; graphcore/examples).
func (m *model) lengths() []int {
	L, bin := m.program.Length, m.plan.LengthBins
	if bin <= 0 || m.program.Head.Task != bert.Pretraining || m.packing > 1 || L <= 128 {
		return []int{L}
	}
	shortest := 0.
	if L < 512 {
		factor := 1.17 + (2.0-1.17)*float64(L-128)/(512-128)
		shortest = float64(L) * max(0, 2/factor-1)
	}
	var list []int
	for end := bin; end < L+bin; end += bin {
		if float64(end) > shortest {
			list = append(list, min(end, L))
		}
	}
	return list
}

// parameters of the model.
func (m *model) parameters() float64 { return float64(m.layout.Parameters()) }
