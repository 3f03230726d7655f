package costmodel

import (
	"harness.invalid/core/backend"
	"harness.invalid/core/machine"
)

// copySeconds is the time that IPUs take at the end of a cycle to pass activations and their gradients to each
// other: all at once, each over the links of its pair, while nothing computes.
func (m *model) copySeconds(devices int) float64 {
	if devices < 2 {
		return 0
	}
	bytes := float64(m.program.MicroBatch*m.program.Length*m.program.Model.HiddenSize) * m.format.bytes
	l := &m.system.Links
	links := l.WithinPair
	if devices > 2 {
		links = l.BetweenPairs
	}
	return bytes/(float64(links)*l.BytesPerSecond*l.Efficiency) + l.HopSeconds
}

// ringSeconds is one pass of a ring over the replicas, for all IPUs of a replica at once: within a rack over
// IPU-Links; between racks each member passes on its share over the gateways.
func (m *model) ringSeconds(bytes, tensors float64) float64 {
	l, n := &m.system.Links, m.program.Replicas
	rate := float64(l.BetweenPairs) * l.BytesPerSecond * l.Efficiency
	step := (l.HopSeconds + superstepCycles/m.system.Chip.ClockHz) * tensors
	within := min(n, max(1, l.IPUsPerRack/m.plan.IPUs()))
	t := machine.RingSeconds(within, bytes, rate, step)
	if racks := ceil(n, within); racks > 1 {
		t += machine.RingSeconds(racks, bytes/float64(within), l.GatewayBytesPerSecond/float64(l.IPUsPerMachine), step)
	}
	return t
}

// Transfers between host and IPUs. Sources: Graphcore, Graphcore Command Line Tools, examples of output.
// gc-hosttraffictest: 26.4 Gbit/s from the host's buffer to the tiles of an IPU of an IPU-M2000. gc-hostsynclatencytest:
// 1485 µs for 4095 synchronisations with the host. A micro-batch has two of them around its inputs and two around its
// results.
const (
	hostToTilesBytesPerSecond = 26.4e9 / 8
	hostSyncSeconds           = 1485e-6 / 4095
	syncsPerMicroBatch        = 4
)

// engineStartSeconds is what a call of the host takes that runs one step: the driver, and a round trip to the IPU-Machine
// over its network. It is an assumption, since nothing is published; the published steps take seconds, and cannot tell it.
const engineStartSeconds = 100e-6

// host is what a step waits for on the side of the host: the data loader, which prepares a global batch, its way to the
// IPUs, each replica for itself, and the start of the program.
func (m *model) host() []backend.Phase {
	p := &m.program
	micro := float64(p.Accumulation)
	// Tokens, segments and mask, positions, labels and weights, 4 bytes each.
	bytes := float64(p.MicroBatch) * 4 * float64(3*p.Length+3*p.MaxPredictions+2)
	return []backend.Phase{
		{Name: "data_loader", Seconds: bytes * micro * float64(p.Replicas) / m.hostBytesPerSecond},
		{Name: "host_exchange", Seconds: micro * (bytes/hostToTilesBytesPerSecond + syncsPerMicroBatch*hostSyncSeconds)},
		{Name: "engine_start", Seconds: engineStartSeconds},
	}
}
