package costmodel

import "harness.invalid/core/machine"

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

// hostSeconds is the time in which the host prepares a global batch: tokens, segments and mask, positions, labels
// and weights, 4 bytes each.
func (m *model) hostSeconds() float64 {
	p := &m.program
	return float64(p.GlobalBatch()) * 4 * float64(3*p.Length+3*p.MaxPredictions+2) / m.hostBytesPerSecond
}
