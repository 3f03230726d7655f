// Package costmodel models time and memory of BERT on Graphcore's IPUs.
//
// A program is cut into stages of layers, one or two an IPU. The time of each is that of its operators: matrix products laid over the tiles by the
// cheapest plan that fits into their memory, with the cycles of the matrix unit by the shape of a tile's block, what the tiles exchange for it over what they
// can exchange, and passes over elements for everything else. A step is then the pipeline's cycles, each as long as its slowest IPU and the copies
// between IPUs, then a ring over the replicas, the update with the optimizer's state from Streaming Memory, and the host's part.
//
// docs/machines.md holds the model against published throughput and says what it can not explain.
package costmodel

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/machine"
)

// Settings are what a program is on IPUs besides what backend.Program says. What is left open is chosen as published configurations have it,
// or so that the program fits and is fast.
type Settings struct {
	// LayersPerIPU of one replica, in halves; nil: as in the published configurations of BERT-Large and Base, all on one IPU for others.
	LayersPerIPU []float64
	// LayersPerPhase are the layers of a phase, where one IPU goes through the model a phase at a time; 0: the model is in a pipeline, or all on one IPU.
	LayersPerPhase int
	// Schedule of the pipeline; empty: grouped.
	Schedule Schedule
	// Recompute; empty: every layer in a pipeline, and on one IPU what fits.
	Recompute Recompute
	// State is where the optimizer's state is; empty: where the program fits and is fastest.
	State State
	// Unsharded replicas have all of the optimizer's state each, not a share.
	Unsharded bool
	// EmbeddingParts is in how many parts embeddings and projection on the vocabulary are computed; 0: 1.
	EmbeddingParts int
	// Proportions of a tile's memory that operands and results of a product may take (availableMemoryProportion), of all IPUs or of each: bounds, below
	// which the program takes what it fits with and is fastest. nil: as published for the length.
	Proportions []float64
}

// Schedule is the order of stages in a pipeline.
type Schedule string

// The schedules.
const (
	Grouped     Schedule = "grouped"     // all forwards and backwards of a cycle beside each other
	Interleaved Schedule = "interleaved" // forwards, then backwards: fewer stashes, and two slowest IPUs a cycle
	Sequential  Schedule = "sequential"  // one micro-batch after the other
)

// Recompute is what is computed again before the backward pass, instead of being kept.
type Recompute string

// The kinds of recomputation.
const (
	NoRecompute    Recompute = "none"  // everything is kept
	LayerRecompute Recompute = "layer" // the input of every layer is kept
	StageRecompute Recompute = "stage" // the input of every stage is kept
)

// State is where the optimizer's state is.
type State string

// The places.
const (
	OnChip  State = "onchip"
	OffChip State = "offchip" // in Streaming Memory
)

// format is what numbers take.
type format struct {
	bytes, partialBytes float64
	slow                float64 // of the matrix unit, against FP16.16
	vectorSlow          float64 // of everything else, against FP16
}

// formats by precision. With FP32 partial sums half of the matrix unit's inputs are used, with FP32 throughout a quarter: 62.5 of 250 teraFLOPS.
var formats = map[string]format{
	"fp16.16": {2, 2, 1, 1},
	"fp16.32": {2, 4, 2, 1},
	"fp32":    {4, 4, 4, 2},
}

// model is a program on a system under way to an estimate.
type model struct {
	program  backend.Program
	settings Settings
	system   *System
	chip     Chip // whose tiles compute
	format   format
	packing  float64
	updates  [updateParts]update
	probes   bool     // a step takes two gradients
	notes    []string // on the optimizer

	vectorCycles           float64
	exchangeBytesPerCycle  float64 // of a tile
	exchangeBytesPerSecond float64 // of all tiles
	hostBytesPerSecond     float64
	planner                *planner
	device                 int     // that is being worked on: its proportion holds
	temporaries            float64 // bytes of a tile that the largest product since it was cleared takes
}

// Estimate models a step.
func Estimate(p backend.Program, s Settings, sys *System, on backend.Machine) (backend.Estimate, error) {
	return estimate(p, s, sys, on, newPlanner(fitted))
}

// proportions are what is tried, within the bounds that were given; published configurations have 0.05 to 0.4.
var proportions = []float64{0.4, 0.25, 0.2, 0.15, 0.1, 0.05}

// estimate takes the fastest of the settings that are left open with which the program fits, and the smallest when it fits with none.
func estimate(p backend.Program, s Settings, sys *System, on backend.Machine, c *planner) (backend.Estimate, error) {
	e, err := fastest(p, s, sys, on, c)
	if errors.Is(err, errNeverFull) && s.LayersPerIPU == nil {
		// The published pipeline is a default: what it can't do one IPU may.
		whole := s
		whole.LayersPerIPU = []float64{float64(p.Model.NumHiddenLayers)}
		if e, failed := fastest(p, whole, sys, on, c); failed == nil && e.Fits() {
			e.Notes = append(e.Notes, fmt.Sprintf("all layers are on one IPU: %v", err))
			return e, nil
		}
	}
	if own := withFront(s.LayersPerIPU); err == nil && len(own) > len(s.LayersPerIPU) {
		e.Notes = append(e.Notes, fmt.Sprintf("layers %s are modelled as %s: the embeddings have an IPU of their own, as published configurations write it", Joined(s.LayersPerIPU), Joined(own)))
	}
	if err == nil && !e.Fits() {
		e.Advice, e.Remedy = remedy(p, s, sys, on, c)
	}
	return e, err
}

// fastest is the estimate for the best way to close what the settings leave open.
func fastest(p backend.Program, s Settings, sys *System, on backend.Machine, c *planner) (backend.Estimate, error) {
	m, err := newModel(p, s, sys, on, c)
	if err != nil {
		return backend.Estimate{}, err
	}
	var best backend.Estimate
	for _, closed := range m.settings.closed(p.Length) {
		m.settings = closed
		stages := m.stages()
		e := m.time(stages)
		e.Memory = m.memory(stages)
		if best.StepSeconds == 0 || better(&e, &best) {
			best = e
		}
	}
	return best, nil
}

// publishedProportion is the bound where none is given: that of published configurations of BERT-Large, which have less for long sequences. Source:
// graphcore/examples, PopART and PyTorch: 0.25 at 128 tokens, 0.19 at 512.
func publishedProportion(length int) float64 {
	if length > 384 {
		return 0.19
	}
	return 0.25
}

// closed lists the settings of a program for sequences of some length with everything decided that is left open.
func (s Settings) closed(length int) []Settings {
	states, kinds := []State{s.State}, []Recompute{s.Recompute}
	var shares [][]float64
	bounds := s.Proportions
	if bounds == nil {
		bounds = []float64{publishedProportion(length)}
	}
	for _, p := range proportions {
		within := slices.Clone(bounds)
		for i := range within {
			within[i] = min(within[i], p)
		}
		shares = append(shares, within)
	}
	if s.State == "" {
		states = []State{OnChip, OffChip}
	}
	switch {
	case s.LayersPerPhase > 0:
		states = []State{OffChip}
		if s.Recompute == "" {
			kinds = []Recompute{NoRecompute, LayerRecompute, StageRecompute}
		}
	case s.Recompute == "" && len(s.LayersPerIPU) > 1:
		kinds = []Recompute{LayerRecompute}
	case s.Recompute == "":
		kinds = []Recompute{NoRecompute, LayerRecompute}
	}
	var list []Settings
	for _, s.Proportions = range shares {
		for _, s.State = range states {
			for _, s.Recompute = range kinds {
				list = append(list, s)
			}
		}
	}
	return list
}

// better prefers what fits, then what is faster; of what does not fit, what is smaller.
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

// errNeverFull tells of a pipeline with fewer micro-batches a step than it has places for.
var errNeverFull = errors.New("it would never be full")

func newModel(p backend.Program, s Settings, sys *System, on backend.Machine, c *planner) (*model, error) {
	f, ok := formats[p.Precision]
	if !ok {
		return nil, fmt.Errorf("no machine model for precision %q: %w", p.Precision, backend.ErrUnsupported)
	}
	s.LayersPerIPU = s.layers(&p.Model)
	if s.Schedule == "" {
		s.Schedule = Grouped
	}
	ipus := len(s.LayersPerIPU)
	sum := 0.
	for _, n := range s.LayersPerIPU {
		sum += n
	}
	if sum != float64(p.Model.NumHiddenLayers) {
		return nil, fmt.Errorf("layers per IPU %s are %g layers, the model has %d", Joined(s.LayersPerIPU), sum, p.Model.NumHiddenLayers)
	}
	if n := len(s.Proportions); n > 1 && n != ipus {
		return nil, fmt.Errorf("%d memory proportions for %d IPUs, want one for all or one for each", n, ipus)
	}
	if ipus > sys.IPUs {
		return nil, fmt.Errorf("%s: a replica takes %d IPUs, the system has %d: want fewer IPUs for a replica, or a larger system", sys.Name, ipus, sys.IPUs)
	}
	if want := ipus * p.Replicas; want > sys.IPUs {
		return nil, fmt.Errorf("%s: %d replicas of %d IPUs take %d IPUs, the system has %d: want at most %d replicas, or a larger system", sys.Name, p.Replicas, ipus, want, sys.IPUs, sys.IPUs/ipus)
	}
	m := &model{
		program: p, settings: s, system: sys, chip: sys.Chip, format: f, packing: packing(&p, on.Packing), probes: on.Update.Probes,
		vectorCycles: c.VectorCycles * f.vectorSlow, hostBytesPerSecond: c.HostBytesPerSecond, planner: c,
		exchangeBytesPerSecond: sys.Chip.ExchangeBytesPerSecond,
		exchangeBytesPerCycle:  sys.Chip.ExchangeBytesPerSecond / sys.Chip.ClockHz / float64(sys.Chip.Tiles),
	}
	if s.LayersPerPhase > 0 {
		if m.chip.Tiles <= ioTiles {
			return nil, fmt.Errorf("%s: phased execution takes %d tiles for input and output, and the chip has %d", sys.Name, ioTiles, m.chip.Tiles)
		}
		m.chip.Tiles -= ioTiles
		m.exchangeBytesPerSecond *= float64(m.chip.Tiles) / float64(sys.Chip.Tiles)
	}
	if err := m.readUpdates(&on.Update); err != nil {
		return nil, err
	}
	m.notes = updateNotes(&on.Update, m.shards())
	if ipus == 1 {
		return m, nil
	}
	forwards := ipus
	if p.Head.Task == bert.Pretraining {
		forwards++
	}
	smallest := map[Schedule]int{Grouped: 2*forwards - 1, Interleaved: forwards, Sequential: 1}[s.Schedule]
	if p.Accumulation < smallest {
		return nil, fmt.Errorf("accumulation is %d: the pipeline %s with schedule %s needs at least %d micro-batches a step: %w", p.Accumulation, Joined(s.LayersPerIPU), s.Schedule, smallest, errNeverFull)
	}
	return m, nil
}

// packing is how many sequences of the data are in one of the program: as given, or for a packed program what Wikipedia's sequences come to. Source:
// Krell et al. 2021, arXiv:2107.02027; graphcore/examples v3.4.1, nlp/bert/pytorch: 1.17, 1.7 and 2.0 at 128, 384 and 512 tokens.
func packing(p *backend.Program, given float64) float64 {
	switch {
	case given > 0 || p.SequencesPerPack <= 1:
		return max(1, given)
	case p.Length <= 128:
		return 1.17
	case p.Length <= 384:
		return 1.7
	}
	return 2
}

// layers of a model on each IPU of a replica.
func (s *Settings) layers(c *bert.Config) []float64 {
	if s.LayersPerIPU == nil {
		return withFront(defaultLayers(c))
	}
	return withFront(s.LayersPerIPU)
}

// ipus of a replica.
func (s *Settings) ipus(p *backend.Program) int { return len(s.layers(&p.Model)) }

// defaultLayers are those of the published configurations.
func defaultLayers(c *bert.Config) []float64 {
	switch {
	case c.NumHiddenLayers == 24 && c.HiddenSize == 1024:
		return []float64{3, 7, 7, 7}
	case c.NumHiddenLayers == 12 && c.HiddenSize == 768:
		return []float64{0, 4, 4, 4}
	}
	return []float64{float64(c.NumHiddenLayers)}
}

// withFront gives embeddings and heads an IPU of their own where the layers are on one less than a power of two: replicas have a power of two, and
// published configurations write 4,4,4 with encoder_start_ipu 1.
func withFront(layers []float64) []float64 {
	if n := len(layers); n > 2 && bits.OnesCount(uint(n+1)) == 1 {
		return slices.Concat([]float64{0}, layers)
	}
	return layers
}

// Joined writes layers as the option pipeline has them, such as 3,7,7,7.
func Joined(layers []float64) string {
	text := make([]string, len(layers))
	for i, n := range layers {
		text[i] = fmt.Sprint(n)
	}
	return strings.Join(text, ",")
}

// seconds of work on the tiles.
func (m *model) seconds(c cost) float64 { return m.cycles(c) / m.system.Chip.ClockHz }

// time puts the step together.
func (m *model) time(stages []stage) backend.Estimate {
	if m.settings.LayersPerPhase > 0 {
		return m.timePhased(stages)
	}
	p, clock := &m.program, m.system.Chip.ClockHz
	devices := len(m.settings.LayersPerIPU)
	e := backend.Estimate{System: m.system.Name}
	work := make([]cost, devices) // forward and backward of a cycle
	again := make([]cost, devices)
	halves := [2][]float64{make([]float64, devices), make([]float64, devices)} // of a cycle with the schedule interleaved
	last, interleaved := len(stages)-1, m.settings.Schedule == Interleaved
	var backs []backend.Stage
	for i, s := range stages {
		work[s.device] = work[s.device].plus(s.forward).plus(s.backward)
		forward := []backend.Phase{{Name: "forward", Seconds: m.seconds(s.forward)}}
		var backward []backend.Phase
		if s.recompute {
			again[s.device] = again[s.device].plus(s.forward)
			backward = append(backward, backend.Phase{Name: "recomputation", Seconds: m.seconds(s.forward)})
		}
		backward = append(backward, backend.Phase{Name: "backward", Seconds: m.seconds(s.backward)})
		halves[i%2][s.device] += seconds(forward)
		halves[(i+1)%2][s.device] += seconds(backward)
		at, back := i, 2*last-i
		if interleaved {
			at, back = i/2, (2*last+1-i)/2
		}
		name := fmt.Sprintf("stage %d (%s)", i, s.name)
		if i == last && !interleaved {
			e.Pipeline.Stages = append(e.Pipeline.Stages, backend.Stage{Name: name, Device: s.device, Offset: at, Parts: append(forward, backward...), Stash: s.stash})
			continue
		}
		e.Pipeline.Stages = append(e.Pipeline.Stages, backend.Stage{Name: name + " forward", Device: s.device, Offset: at, Parts: forward, Stash: s.stash})
		backs = append(backs, backend.Stage{Name: name + " backward", Device: s.device, Offset: back, Parts: backward})
	}
	slices.Reverse(backs)
	forwards := len(e.Pipeline.Stages)
	e.Pipeline.Stages = append(e.Pipeline.Stages, backs...)
	busy := func(d int) float64 { return m.seconds(work[d]) + m.seconds(again[d]) }
	slowest, sum := 0, 0.
	for d := range devices {
		if busy(d) > busy(slowest) {
			slowest = d
		}
		sum += busy(d)
	}
	copies := m.copySeconds(devices)
	cycle, cycles := busy(slowest)+copies, p.Accumulation+2*last
	switch m.settings.Schedule {
	case Interleaved:
		// Neighbours take turns: while one goes forward the other goes backward. Here a cycle is both turns.
		copies *= 2
		cycle, cycles = slices.Max(halves[0])+slices.Max(halves[1])+copies, p.Accumulation+last
		for i := range stages { // stage i goes forward in turn i%2, and back in the other one
			turns := [2]float64{0, slices.Max(halves[0]) + copies/2}
			e.Pipeline.Stages[i].Start, e.Pipeline.Stages[forwards+last-i].Start = turns[i%2], turns[(i+1)%2]
		}
	case Sequential:
		cycle, cycles = sum+copies*float64(2*last), p.Accumulation
	}
	micro := float64(p.Accumulation)
	params, most := 0., 0
	for d := range devices {
		if n := m.parameters(stages, d); n > params {
			params, most = n, d
		}
	}
	reduce := 2 * m.ringSeconds(params*m.format.bytes, 16*m.settings.LayersPerIPU[most]+1) // reduce-scatter, all-gather
	update, streaming := 0., 0.
	for d := range devices {
		u := m.deviceUpdate(stages, d)
		update = max(update, m.updateSeconds(u))
		if m.settings.State == OffChip {
			streaming = max(streaming, 2*u.bytes/m.shards()/m.system.Streaming.BytesPerSecond)
		}
	}
	w := work[slowest]
	e.Breakdown = []backend.Phase{
		{Name: "compute", Seconds: micro * w.compute / clock},
		{Name: "exchange", Seconds: micro * (w.exchange/clock + copies)},
		{Name: "sync", Seconds: micro * w.supersteps * superstepCycles / clock},
		{Name: "bubble", Seconds: float64(cycles)*cycle - micro*(busy(slowest)+copies)},
		{Name: "recomputation", Seconds: micro * m.seconds(again[slowest])},
		{Name: "all_reduce", Seconds: reduce},
		{Name: "optimizer", Seconds: update},
		{Name: "streaming", Seconds: streaming},
		{Name: "host_io", Seconds: m.hostSeconds()},
	}
	e.Breakdown = m.withSecond(e.Breakdown, float64(cycles)*cycle+reduce)
	e.Pipeline.Cycles, e.Pipeline.CycleSeconds, e.Pipeline.Sequential = cycles, cycle, m.settings.Schedule == Sequential
	m.complete(&e, devices, e.Breakdown[5:])
	return e
}

// complete fills in what follows from the parts of a step and from those of them that come behind the last cycle.
func (m *model) complete(e *backend.Estimate, devices int, update []backend.Phase) {
	for _, b := range e.Breakdown {
		e.StepSeconds += b.Seconds
	}
	for _, b := range update {
		if b.Seconds > 0 {
			e.Pipeline.Update = append(e.Pipeline.Update, b)
		}
	}
	p := &m.program
	sequences := float64(p.GlobalBatch()) * m.packing
	e.GlobalBatch = int(math.Round(sequences))
	e.SequencesPerSecond = sequences / e.StepSeconds
	flops := 6 * m.forwardMACs() * float64(p.Accumulation*p.Replicas)
	if m.probes {
		flops *= 2
	}
	e.Notes = append(e.Notes, m.notes...)
	e.PeakShare = flops / (e.StepSeconds * float64(p.Replicas*devices) * m.system.Chip.PeakFlops() / m.format.slow)
}

// shards are the replicas among which the optimizer's state is shared out.
func (m *model) shards() float64 {
	if m.settings.Unsharded {
		return 1
	}
	return float64(m.program.Replicas)
}

// hostSeconds are those that the host takes to prepare a global batch: tokens, segments and mask, positions, labels and weights, 4 bytes each.
func (m *model) hostSeconds() float64 {
	p := &m.program
	return float64(p.GlobalBatch()) * 4 * float64(3*p.Length+3*p.MaxPredictions+2) / m.hostBytesPerSecond
}

// seconds of parts, one after the other.
func seconds(parts []backend.Phase) float64 {
	sum := 0.
	for _, p := range parts {
		sum += p.Seconds
	}
	return sum
}

// copySeconds is what the activations and their gradients take between IPUs at the end of each cycle, all at once, each over the links of its pair;
// nothing computes meanwhile.
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

// ringSeconds is one pass of a ring over the replicas for what each IPU of them has, all IPUs at once: within a rack over IPU-Links; between racks each
// member passes on its share over the gateways.
func (m *model) ringSeconds(bytes, tensors float64) float64 {
	l, n := &m.system.Links, m.program.Replicas
	rate := float64(l.BetweenPairs) * l.BytesPerSecond * l.Efficiency
	step := (l.HopSeconds + superstepCycles/m.system.Chip.ClockHz) * tensors
	within := min(n, max(1, l.IPUsPerRack/len(m.settings.LayersPerIPU)))
	t := machine.RingSeconds(within, bytes, rate, step)
	if racks := ceil(n, within); racks > 1 {
		t += machine.RingSeconds(racks, bytes/float64(within), l.GatewayBytesPerSecond/float64(l.IPUsPerMachine), step)
	}
	return t
}
