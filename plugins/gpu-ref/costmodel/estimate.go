// Package costmodel models time and memory of BERT on NVIDIA's GPUs.
//
// A micro-batch is a list of kernels. A matrix product is dealt to the multiprocessors in blocks and waves and bounded by arithmetic, cache or memory;
// everything else is bounded by the memory. Launching the kernels takes the host as long as their number says, and the slower of host and
// device counts. Gradients are summed over GPUs by a ring within the node and one between nodes, beside the last backward pass as far as that lasts.
//
// docs/machines.md holds the model against published throughput and says what it can not explain.
package costmodel

import (
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/machine"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// Settings are what a program is on GPUs besides what backend.Program says.
type Settings struct {
	// Checkpointing keeps the inputs of layers only and computes the rest again.
	Checkpointing bool
	// LengthBins is the width in tokens of the bins that sequences of pre-training come in, each batch from one of them and padded to its end; 0: all
	// are padded to the full length.
	LengthBins int
	// ReduceEach sums the gradients over the replicas after every micro-batch, not only after the last.
	ReduceEach bool
}

// model is a program on a system under way to an estimate.
type model struct {
	program              backend.Program
	settings             Settings
	system               *System
	format               format
	flops                float64
	memoryBytesPerSecond float64
	layout               *tensor.Layout // of the parameters
	update               optimizer.Cost
	packing              float64
	constants            constants
}

// Estimate models a step.
func Estimate(p backend.Program, s Settings, sys *System, on backend.Machine) (backend.Estimate, error) {
	return estimate(p, s, sys, on, fitted)
}

func estimate(p backend.Program, s Settings, sys *System, on backend.Machine, c constants) (backend.Estimate, error) {
	m, err := newModel(p, s, sys, on, c)
	if err != nil {
		return backend.Estimate{}, err
	}
	e := m.time()
	e.Memory = m.memory()
	if !e.Fits() {
		e.Advice, e.Remedy = remedy(p, s, sys, on, c)
	}
	return e, nil
}

func newModel(p backend.Program, s Settings, sys *System, on backend.Machine, c constants) (*model, error) {
	name := p.Precision
	if name == "fp16-o2" {
		name = "fp16"
	}
	flops, ok := sys.Chip.Flops[name]
	if !ok {
		return nil, fmt.Errorf("%s: %s does not compute in %s: %w", sys.Name, sys.Chip.Name, p.Precision, backend.ErrUnsupported)
	}
	if most := sys.Nodes * sys.Node.GPUs; p.Replicas > most {
		return nil, fmt.Errorf("%s: %d replicas take %d GPUs, the system has at most %d in %d nodes", sys.Name, p.Replicas, p.Replicas, most, sys.Nodes)
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
		program: p, settings: s, system: sys, format: formats[name], flops: flops, layout: l, update: on.Update, packing: max(1, on.Packing),
		memoryBytesPerSecond: sys.Chip.MemoryBytesPerSecond * sys.Chip.MemoryEfficiency, constants: c,
	}, nil
}

// lengths are the lengths of the micro-batches, all equally frequent. Lengths of sequences are taken as even from the shortest to the longest, so that
// at 512 tokens their mean is the half: the packing factor of Wikipedia is 2.0 there, 1.7 at 384 and 1.17 at 128 tokens (Krell et al. 2021,
// arXiv:2107.02027; graphcore/examples).
func (m *model) lengths() []int {
	L, bin := m.program.Length, m.settings.LengthBins
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

// tensors of the model.
func (m *model) tensors() float64 { return float64(16*m.program.Model.NumHiddenLayers + 9) }

// time puts the step together.
func (m *model) time() backend.Estimate {
	p := &m.program
	lengths := m.lengths()
	var forward, backward, again, launch, macs float64
	var work cost
	for _, S := range lengths {
		l := m.encoderLayer(S).times(float64(p.Model.NumHiddenLayers))
		o := m.outside(S)
		all := l.plus(o)
		w := all.forward.plus(all.backward)
		r := cost{}
		if m.settings.Checkpointing {
			r = l.forward
		}
		kernels := w.plus(r)
		launch += max(0, kernels.kernels*launchSeconds-kernels.seconds())
		forward, backward, again = forward+all.forward.seconds(), backward+all.backward.seconds(), again+r.seconds()
		work = work.plus(w)
		macs += m.forwardMACs(S)
	}
	n, micro := float64(len(lengths)), float64(p.Accumulation)
	params := m.parameters()
	reduce := max(0, m.allReduceSeconds(params*m.format.weightBytes)-backward/n*overlapShare)
	if m.settings.ReduceEach {
		reduce *= micro
	}
	e := backend.Estimate{System: m.system.Name, Breakdown: []backend.Phase{
		{Name: "compute", Seconds: micro * work.compute / n},
		{Name: "memory", Seconds: micro * work.memory / n},
		{Name: "launch", Seconds: micro * launch / n},
		{Name: "recomputation", Seconds: micro * again / n},
		{Name: "all_reduce", Seconds: reduce},
		{Name: "optimizer", Seconds: m.updateSeconds()},
		{Name: "host_io", Seconds: m.tensors() * m.constants.HostSecondsPerTensor},
	}}
	if m.update.Probes {
		second := backend.Phase{Name: "second_gradient"}
		for _, b := range e.Breakdown[:5] {
			second.Seconds += b.Seconds
		}
		e.Breakdown = slices.Insert(e.Breakdown, 5, second)
		macs *= 2
	}
	for _, b := range e.Breakdown {
		e.StepSeconds += b.Seconds
	}
	sequences := float64(p.GlobalBatch()) * m.packing
	e.GlobalBatch = int(math.Round(sequences))
	e.SequencesPerSecond = sequences / e.StepSeconds
	e.PeakShare = 6 * macs / n * micro / (e.StepSeconds * m.flops)
	parts := []backend.Phase{{Name: "forward", Seconds: forward / n}}
	if again > 0 {
		parts = append(parts, backend.Phase{Name: "recomputation", Seconds: again / n})
	}
	parts = append(parts, backend.Phase{Name: "backward", Seconds: backward / n})
	if launch > 0 {
		parts = append(parts, backend.Phase{Name: "launch", Seconds: launch / n})
	}
	cycle := (forward + backward + again + launch) / n
	e.Pipeline = backend.Pipeline{Stages: []backend.Stage{{Name: "model", Parts: parts}}, Cycles: p.Accumulation, CycleSeconds: cycle}
	for _, b := range e.Breakdown[4:] {
		if b.Seconds > 0 {
			e.Pipeline.Update = append(e.Pipeline.Update, b)
		}
	}
	e.Notes = m.updateNotes()
	if len(lengths) > 1 {
		e.Notes = append(e.Notes, fmt.Sprintf("sequences come in bins of %d tokens, %d on average, as NVIDIA's loader deals them; length_bins=0 pads all to %d", m.settings.LengthBins, sum(lengths)/len(lengths), p.Length))
	}
	return e
}

func sum(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}

// overlapShare of the last backward pass runs beside the all-reduce: the gradients of its first buckets are there early, those of its last are not.
const overlapShare = 0.9

// allReduceSeconds is a ring within each node, and one between the nodes for each GPU's share.
func (m *model) allReduceSeconds(bytes float64) float64 {
	node, n := &m.system.Node, m.program.Replicas
	within := min(n, node.GPUs)
	t := 2 * machine.RingSeconds(within, bytes, node.LinkBytesPerSecond*node.Efficiency, node.StepSeconds)
	if nodes := ceil(n, node.GPUs); nodes > 1 {
		t += 2 * machine.RingSeconds(nodes, bytes/float64(within), node.NetworkBytesPerSecond/float64(within)*node.Efficiency, node.NetworkStepSeconds)
	}
	return t
}

// Memory that nothing of the model takes: context, libraries, and what the allocator can't use.
const overheadBytes = 2 << 30

// memory is the plan of a GPU's memory. Activations of a layer and token are 34 H + 5 A S bytes in FP16 with the masks of dropout, of 1 byte each.
// Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.1.
func (m *model) memory() []backend.DeviceMemory {
	c := &m.program.Model
	tokens, H, scores := float64(m.program.MicroBatch*m.program.Length), float64(c.HiddenSize), float64(c.NumAttentionHeads*m.program.Length)
	f := m.format.bytes
	layer := tokens * (H*(16*f+2) + scores*(2*f+1))
	activations := layer * float64(c.NumHiddenLayers)
	if m.settings.Checkpointing {
		activations = tokens*H*f*float64(c.NumHiddenLayers) + layer
	}
	logits := 0.
	if m.program.Head.Task == bert.Pretraining {
		logits = float64(m.program.MicroBatch*m.program.MaxPredictions) * float64(c.VocabSize) * (2*f + 4)
	}
	params := m.parameters()
	return []backend.DeviceMemory{{Device: "GPU", Bytes: m.system.Chip.MemoryBytes, Parts: []backend.MemoryPart{
		{Name: "weights", Bytes: int64(params * m.format.weightBytes)},
		{Name: "gradients", Bytes: int64(params * m.format.weightBytes)},
		{Name: "activations", Bytes: int64(activations)},
		{Name: "logits", Bytes: int64(logits)},
		{Name: "optimizer", Bytes: int64(m.stateBytes())},
		{Name: "overhead", Bytes: overheadBytes},
	}}}
}

// remedy looks for what makes a program fit: smaller micro-batches, activations computed again, a GPU with more memory.
func remedy(p backend.Program, s Settings, sys *System, on backend.Machine, c constants) (string, *backend.Remedy) {
	type place struct {
		Settings
		system *System
	}
	type change = machine.Change[place]
	var micro, again, larger []change
	for _, n := range machine.Smaller(&p) {
		micro = append(micro, change{Words: fmt.Sprintf("a micro-batch of %d instead of %d", n, p.MicroBatch), Apply: func(p *backend.Program, _ *place) {
			p.MicroBatch, p.Accumulation = n, p.Accumulation*p.MicroBatch/n
		}})
	}
	if !s.Checkpointing {
		again = append(again, change{Words: "activation checkpointing", Options: map[string]string{"checkpoint_activations": "true"}, Apply: func(_ *backend.Program, at *place) { at.Checkpointing = true }})
	}
	for _, name := range Systems.Names() {
		if other, err := Systems.Load(name); err == nil && other.Chip.MemoryBytes > sys.Chip.MemoryBytes {
			larger = append(larger, change{Words: "a larger GPU", Options: map[string]string{"system": name}, Apply: func(_ *backend.Program, at *place) { at.system = other }})
		}
	}
	rate := func(p backend.Program, at place) (float64, bool) {
		m, err := newModel(p, at.Settings, at.system, on, c)
		if err != nil {
			return 0, false
		}
		e := m.time()
		e.Memory = m.memory()
		return e.SequencesPerSecond, e.Fits()
	}
	words, found := machine.Remedy(p, place{s, sys}, [][]change{micro, again}, rate)
	if found == nil {
		words, found = machine.Remedy(p, place{s, sys}, [][]change{micro, again, larger}, rate)
	}
	if found == nil {
		return "a smaller model or shorter sequences: no settings that this model knows", nil
	}
	return words, found
}
