package costmodel

import (
	"fmt"
	"strconv"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/machine"
)

// mostIPUs of a replica that are looked at.
const mostIPUs = 16

// remedy looks for what makes a program fit: state off the chip, more recomputation, shares of the state, fewer micro-batches in the pipeline,
// embeddings in parts, smaller micro-batches, another pipeline, and phases where nothing else does.
func remedy(p backend.Program, s Settings, sys *System, on backend.Machine, c *planner) (string, *backend.Remedy) {
	rate := func(p backend.Program, s Settings) (float64, bool) {
		if m, err := newModel(p, s, sys, on, c); err != nil || m.hopeless() {
			return 0, false
		}
		e, err := fastest(p, s, sys, on, c)
		return e.SequencesPerSecond, err == nil && e.Fits()
	}
	kinds := changes(&p, &s, sys)
	words, found := machine.Remedy(p, s, kinds, rate)
	if found == nil {
		words, found = machine.Remedy(p, s, append(kinds, phased(&s, sys)), rate)
	}
	if found == nil {
		return "a smaller model or shorter sequences: no settings that this model knows", nil
	}
	return words, found
}

// hopeless reports whether a program does not fit however its products are computed, which is told without planning them.
func (m *model) hopeless() bool {
	open := m.settings
	defer func() { m.settings = open }()
	for _, m.settings = range open.closed(m.program.Length) {
		stages, most := m.cut(), 0.
		if m.settings.LayersPerPhase > 0 {
			most = m.heldPhased(stages).total()
		}
		for d := range m.settings.LayersPerIPU {
			if m.settings.LayersPerPhase == 0 {
				most = max(most, m.held(stages, d).total())
			}
		}
		if most < float64(m.system.Chip.SRAMBytes()) {
			return false
		}
	}
	return true
}

// changes are those that a program has not made yet.
func changes(p *backend.Program, s *Settings, sys *System) [][]machine.Change[Settings] {
	type change = machine.Change[Settings]
	option := func(words, name, value string, apply func(s *Settings)) change {
		return change{Words: words, Options: map[string]string{name: value}, Apply: func(_ *backend.Program, s *Settings) { apply(s) }}
	}
	var state, again, shares, order, parts, micro, cut []change
	if s.State == OnChip {
		state = append(state, option("the optimizer's state in Streaming Memory", "optimizer_state", string(OffChip), func(s *Settings) { s.State = OffChip }))
	}
	if s.Recompute != "" && s.Recompute != LayerRecompute { // left open, it is tried anyhow
		again = append(again, option("the inputs of layers kept and the rest computed again", "recomputation", string(LayerRecompute), func(s *Settings) { s.Recompute = LayerRecompute }))
	}
	if s.Recompute != StageRecompute {
		again = append(again, option("the inputs of stages kept and the rest computed again", "recomputation", string(StageRecompute), func(s *Settings) { s.Recompute = StageRecompute }))
	}
	if s.Unsharded && p.Replicas > 1 {
		shares = append(shares, option("the optimizer's state shared out over the replicas", "replicated_tensor_sharding", "true", func(s *Settings) { s.Unsharded = false }))
	}
	if s.Schedule == "" || s.Schedule == Grouped {
		order = append(order, option("the schedule interleaved", "schedule", string(Interleaved), func(s *Settings) { s.Schedule = Interleaved }))
	}
	if p.Head.Task == bert.Pretraining {
		for _, n := range []int{5, 20} {
			if n > s.EmbeddingParts {
				parts = append(parts, option(fmt.Sprintf("embeddings in %d parts", n), "embedding_serialization", strconv.Itoa(n), func(s *Settings) { s.EmbeddingParts = n }))
			}
		}
	}
	for _, n := range machine.Smaller(p) {
		micro = append(micro, change{Words: fmt.Sprintf("a micro-batch of %d instead of %d", n, p.MicroBatch), Apply: func(p *backend.Program, _ *Settings) {
			p.MicroBatch, p.Accumulation = n, p.Accumulation*p.MicroBatch/n
		}})
	}
	own := Joined(s.layers(&p.Model))
	for n := 1; n <= min(mostIPUs, sys.IPUs, p.Model.NumHiddenLayers); n *= 2 {
		layers := spread(p.Model.NumHiddenLayers, n)
		text := Joined(layers)
		if text == own && s.LayersPerPhase == 0 || s.LayersPerPhase > 0 && n == 1 {
			continue
		}
		options := otherIPUs(s, map[string]string{"pipeline": text})
		if s.LayersPerPhase > 0 {
			options["execution"] = "pipelined"
		}
		cut = append(cut, change{Words: layersOn(text, n), Options: options, Apply: func(p *backend.Program, s *Settings) {
			s.LayersPerIPU, s.LayersPerPhase = layers, 0
			onto(p, s, sys.IPUs/n)
		}})
	}
	return [][]change{state, again, shares, order, parts, micro, cut}
}

// phased are executions in phases, of fewer layers than before.
func phased(s *Settings, sys *System) []machine.Change[Settings] {
	var list []machine.Change[Settings]
	for _, n := range []int{3, 2, 1} {
		if s.LayersPerPhase > 0 && n >= s.LayersPerPhase {
			continue
		}
		options := map[string]string{"pipeline": "all", "execution": "phased", "layers_per_phase": strconv.Itoa(n)}
		list = append(list, machine.Change[Settings]{Words: phasesOf(n), Options: otherIPUs(s, options), Apply: func(p *backend.Program, s *Settings) {
			s.LayersPerIPU, s.LayersPerPhase = []float64{float64(p.Model.NumHiddenLayers)}, n
			onto(p, s, sys.IPUs)
		}})
	}
	return list
}

// otherIPUs completes options that cut the model anew: proportions of memory that were given are those of other IPUs.
func otherIPUs(s *Settings, options map[string]string) map[string]string {
	if len(s.Proportions) > 1 {
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
func onto(p *backend.Program, s *Settings, most int) {
	if len(s.Proportions) > 1 {
		s.Proportions = nil
	}
	for n := min(p.Replicas, most); n >= 1; n-- {
		if p.Replicas%n == 0 {
			p.Accumulation, p.Replicas = p.Accumulation*p.Replicas/n, n
			return
		}
	}
}

// spread lays layers over n IPUs evenly: the embeddings and heads of the first weigh about as much as three layers.
func spread(layers, n int) []float64 {
	most := (layers + 3 + n - 1) / n
	first := max(0, layers-most*(n-1))
	list := []float64{float64(first)}
	for i := 1; i < n; i++ {
		list = append(list, float64((layers-first)*i/(n-1)-(layers-first)*(i-1)/(n-1)))
	}
	return list
}
