package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/plugins/ipu/execution"
)

// format is what numbers take.
type format struct {
	bytes, partialBytes float64
	slow                float64 // of the matrix unit, against FP16.16
	vectorSlow          float64 // of everything else, against FP16
}

// formats by precision. With FP32 partial sums half of the matrix unit's inputs are used, with FP32 throughout a
// quarter: 62.5 of 250 teraFLOPS.
var formats = map[string]format{
	"fp16.16": {2, 2, 1, 1},
	"fp16.32": {2, 4, 2, 1},
	"fp32":    {4, 4, 4, 2},
}

// model is a program on a system, on its way to an estimate.
type model struct {
	program   backend.Program
	plan      execution.Plan
	system    *System
	chip      Chip // whose tiles compute
	format    format
	packing   float64
	guessed   bool            // packing is not given
	operators []bert.Operator // of the model with a single layer
	// forwardMACs are the multiply-adds of a forward pass of the whole model on a micro-batch.
	forwardMACs float64

	updates           updates
	probes            bool // a step takes two gradients
	updateAssumptions []backend.Assumption

	vectorCycles           float64
	exchangeBytesPerCycle  float64 // of a tile
	exchangeBytesPerSecond float64 // of all tiles
	hostBytesPerSecond     float64
	planner                *planner
	device                 int     // that is being worked on: its proportion holds
	temporaries            float64 // bytes of a tile that the largest product since it was cleared takes
}

func newModel(
	p backend.Program, plan execution.Plan, sys *System, on backend.Machine, n *parameters, c *planner,
) (*model, error) {
	f, ok := formats[p.Precision]
	if !ok {
		return nil, fmt.Errorf("no machine model for precision %q: %w", p.Precision, backend.ErrUnsupported)
	}
	ipus := plan.IPUs()
	if ipus > sys.IPUs {
		return nil, fmt.Errorf("%s: a replica takes %d IPUs, the system has %d: want fewer IPUs for a replica, or a larger system",
			sys.Name, ipus, sys.IPUs)
	}
	if want := ipus * p.Replicas; want > sys.IPUs {
		return nil, fmt.Errorf("%s: %d replicas of %d IPUs take %d IPUs, the system has %d: want at most %d replicas, or a larger "+
			"system", sys.Name, p.Replicas, ipus, want, sys.IPUs, sys.IPUs/ipus)
	}
	m := &model{
		program: p, plan: plan, system: sys, chip: sys.Chip, format: f, probes: on.Update.Probes,
		vectorCycles: c.VectorCycles * f.vectorSlow, hostBytesPerSecond: c.HostBytesPerSecond, planner: c,
		exchangeBytesPerSecond: sys.Chip.ExchangeBytesPerSecond,
		exchangeBytesPerCycle:  sys.Chip.ExchangeBytesPerSecond / sys.Chip.ClockHz / float64(sys.Chip.Tiles),
	}
	m.packing, m.guessed = packing(&p, on.Packing)
	m.operators = n.operators
	m.forwardMACs = bert.MultiplyAdds(p.Model, p.Head, m.shape())
	if plan.LayersPerPhase > 0 {
		if m.chip.Tiles <= ioTiles {
			return nil, fmt.Errorf("%s: phased execution takes %d tiles for input and output, and the chip has %d",
				sys.Name, ioTiles, m.chip.Tiles)
		}
		m.chip.Tiles -= ioTiles
		m.exchangeBytesPerSecond *= float64(m.chip.Tiles) / float64(sys.Chip.Tiles)
	}
	m.priceUpdates(n)
	m.updateAssumptions = updateAssumptions(&on.Update, m.shards())
	return m, nil
}

// packing is how many sequences of the data are in one of the program: as given, or for a packed program what
// Wikipedia's sequences come to. Source: Krell et al. 2021, arXiv:2107.02027; graphcore/examples v3.4.1,
// nlp/bert/pytorch: 1.17, 1.7 and 2.0 at 128, 384 and 512 tokens.
func packing(p *backend.Program, given float64) (sequences float64, guessed bool) {
	switch {
	case given > 0 || p.SequencesPerPack <= 1:
		return max(1, given), false
	case p.Length <= 128:
		return 1.17, true
	case p.Length <= 384:
		return 1.7, true
	}
	return 2, true
}

// shards are the replicas among which the optimizer's state is shared out.
func (m *model) shards() float64 {
	if !m.plan.Sharded {
		return 1
	}
	return float64(m.program.Replicas)
}

// seconds of work on the tiles.
func (m *model) seconds(c cost) float64 { return m.cycles(c) / m.system.Chip.ClockHz }
