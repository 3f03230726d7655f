package costmodel

import (
	"fmt"
	"math"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/machine"
)

// work is what a GPU does for a micro-batch, on average over its lengths.
type work struct {
	cost                              // forward and backward
	forward, backward, again, seconds float64
	launch                            float64 // seconds between kernels, and that the GPU waits for the host
	loader                            float64 // seconds that it waits for the data
	macs                              float64 // of a forward pass
}

// work of a micro-batch.
func (m *model) work() work {
	var w work
	lengths := m.lengths()
	share := 1 / float64(len(lengths))
	for _, S := range lengths {
		layers := m.encoderLayer(S).times(float64(m.program.Model.NumHiddenLayers))
		all := layers.plus(m.outside(S))
		done, again := all.forward.plus(all.backward), cost{}
		if m.plan.Checkpointing() {
			again = layers.forward
		}
		kernels := done.plus(again)
		sequences, length := float64(m.program.MicroBatch), float64(S)
		busy := kernels.seconds() + kernels.kernels*m.software.gapSeconds
		total := max(busy, m.software.hostSeconds(kernels.kernels, sequences, length))
		w.launch += share * (total - kernels.seconds())
		w.loader += share * m.software.loaderSeconds(sequences, length, total)
		w.forward += share * all.forward.seconds()
		w.backward += share * all.backward.seconds()
		w.again += share * again.seconds()
		w.cost = w.cost.plus(done.times(share))
		w.macs += share * m.forwardMACs(S)
	}
	w.seconds = w.forward + w.backward + w.again + w.launch + w.loader
	return w
}

// time puts the step together.
func (m *model) time() backend.Estimate {
	p, w := &m.program, m.work()
	micro := float64(p.Accumulation)
	reduce := max(0, m.allReduceSeconds(m.parameters()*m.format.weightBytes)-w.backward*overlapShare)
	if m.plan.ReduceEach {
		reduce *= micro
	}
	gradient := []backend.Phase{
		{Name: "compute", Seconds: micro * w.compute},
		{Name: "memory", Seconds: micro * w.memory},
		{Name: "launch", Seconds: micro * w.launch},
		{Name: "recomputation", Seconds: micro * w.again},
	}
	update := []backend.Phase{{Name: "all_reduce", Seconds: reduce}}
	if m.update.Probes { // of the same batch
		second := backend.Phase{Name: "second_gradient", Seconds: reduce}
		for _, b := range gradient {
			second.Seconds += b.Seconds
		}
		update = append(update, second)
		w.macs *= 2
	}
	update = append(update, backend.Phase{Name: "optimizer", Seconds: m.updateSeconds()})
	if m.software.waits {
		update = append(update, backend.Phase{Name: "program", Seconds: m.constants.SQuADSeconds})
	}
	e := backend.Estimate{System: m.system.Name}
	e.Breakdown = slices.Concat(gradient, []backend.Phase{{Name: "data_loader", Seconds: micro * w.loader}}, update)
	for _, b := range e.Breakdown {
		e.StepSeconds += b.Seconds
	}
	sequences := float64(p.GlobalBatch()) * m.packing
	e.GlobalBatch = int(math.Round(sequences))
	e.SequencesPerSecond = sequences / e.StepSeconds
	e.PeakShare = 6 * w.macs * micro / (e.StepSeconds * m.flops)
	e.Pipeline = m.pipeline(&w, update)
	e.Assumptions = m.assumptions()
	return e
}

// pipeline is one stage with the whole model, and what follows the last micro-batch.
func (m *model) pipeline(w *work, update []backend.Phase) backend.Pipeline {
	stage := backend.Stage{Name: "model", Stash: m.plan.Stash()[0], Parts: []backend.Phase{{Name: "forward", Seconds: w.forward}}}
	if w.again > 0 {
		stage.Parts = append(stage.Parts, backend.Phase{Name: "recomputation", Seconds: w.again})
	}
	stage.Parts = append(stage.Parts, backend.Phase{Name: "backward", Seconds: w.backward})
	if w.launch > 0 {
		stage.Parts = append(stage.Parts, backend.Phase{Name: "launch", Seconds: w.launch})
	}
	stage.Parts = append(stage.Parts, backend.Phase{Name: "data_loader", Seconds: w.loader})
	p := backend.Pipeline{Stages: []backend.Stage{stage}, Cycles: m.plan.Cycles(m.program.Accumulation), CycleSeconds: w.seconds}
	for _, b := range update {
		if b.Seconds > 0 {
			p.Update = append(p.Update, b)
		}
	}
	return p
}

// assumptions are what the machine does and the run does not, or what nobody says.
func (m *model) assumptions() []backend.Assumption {
	list := m.updateAssumptions()
	if m.program.Options[softwareOption] == "" {
		list = append(list, backend.Assumption{Setting: softwareOption, Modelled: m.software.name, Reason: m.software.doc})
	}
	if lengths := m.lengths(); len(lengths) > 1 {
		list = append(list, backend.Assumption{
			Setting: "length_bins", Modelled: fmt.Sprint(m.plan.LengthBins), Run: "0",
			Reason: fmt.Sprintf("NVIDIA's loader deals sequences in bins of %d tokens, %d on average; the run pads all to %d",
				m.plan.LengthBins, sum(lengths)/len(lengths), m.program.Length),
		})
	}
	if m.plan.Checkpointing() {
		list = append(list, backend.Assumption{
			Setting: "checkpoint_activations", Modelled: "all layers", Run: "all layers but the last",
			Reason: "PyTorch computes every checkpointed layer again; the run still has the last one",
		})
	}
	return list
}

func sum(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}

// overlapShare of the last backward pass runs beside the all-reduce: the gradients of its first buckets are there
// early, those of its last are not.
const overlapShare = 0.9

// allReduceSeconds is a ring within each node, and one between the nodes for each GPU's share.
func (m *model) allReduceSeconds(bytes float64) float64 {
	node, n := &m.system.Node, m.program.Replicas
	within := min(n, node.GPUs)
	t := 2 * machine.RingSeconds(within, bytes, node.LinkBytesPerSecond*node.Efficiency, node.StepSeconds)
	if nodes := ceil(n, node.GPUs); nodes > 1 {
		rate := node.NetworkBytesPerSecond / float64(within) * node.Efficiency
		t += 2 * machine.RingSeconds(nodes, bytes/float64(within), rate, node.NetworkStepSeconds)
	}
	return t
}
