package shrink

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/recipe"
)

// batches scales the global batch of every phase, with its cuts: that of the phase, and those of single backends.
func (w *shrinker) batches() error {
	w.cutsByPhase()
	for i := range w.Phases {
		p := &w.Phases[i]
		if p.GlobalBatch <= w.Sequences {
			continue
		}
		for _, name := range w.backends() {
			if err := w.cutBackend(name, p); err != nil {
				return err
			}
		}
		fill, why := 1, "micro-batch"
		for _, name := range w.backends() {
			if b := w.settings(name, p); !cuts(b) {
				if n, whose := pipelineFill(b, p); n > fill {
					fill, why = n, whose
				}
			}
		}
		to, err := w.cut(p, recipe.Cut{MicroBatch: p.MicroBatch, Accumulation: p.Accumulation, Replicas: p.Replicas}, fill, why)
		if err != nil {
			return err
		}
		w.change(p.Name+": global batch", &p.GlobalBatch, w.Sequences)
		w.cutTo(p.Name+": ", &p.MicroBatch, &p.Accumulation, &p.Replicas, to)
	}
	return nil
}

// cutBackend scales a backend's own cut of a phase, if it has one.
func (w *shrinker) cutBackend(name string, p *recipe.Phase) error {
	of := w.Backends[name].Phases[p.Name]
	if !cuts(of) {
		return nil
	}
	was, err := p.Cut(of)
	if err != nil {
		return fmt.Errorf("backend %s: %w", name, err)
	}
	fill, why := pipelineFill(w.settings(name, p), p)
	to, err := w.cut(p, was, fill, why)
	if err != nil {
		return fmt.Errorf("backend %s: %w", name, err)
	}
	of.MicroBatch, of.Accumulation, of.Replicas = was.MicroBatch, was.Accumulation, was.Replicas
	w.cutTo(fmt.Sprintf("%s of %s: ", p.Name, name), &of.MicroBatch, &of.Accumulation, &of.Replicas, to)
	w.Backends[name].Phases[p.Name] = of
	return nil
}

// cutsByPhase gives a backend's cut of all phases to each of them that has none of its own.
func (w *shrinker) cutsByPhase() {
	for _, name := range w.backends() {
		b := w.Backends[name]
		if !cuts(b) {
			continue
		}
		if b.Phases == nil {
			b.Phases = map[string]recipe.Backend{}
		}
		for i := range w.Phases {
			phase := w.Phases[i].Name
			if of := b.Phases[phase]; !cuts(of) {
				of.MicroBatch, of.Accumulation, of.Replicas = b.MicroBatch, b.Accumulation, b.Replicas
				b.Phases[phase] = of
			}
		}
		b.MicroBatch, b.Accumulation, b.Replicas = 0, 0, 0
		w.Backends[name] = b
	}
}

// cut divides the sequences over replicas, micro-batches and time: at most two replicas, and the largest micro-batch
// that leaves the pipeline enough of them, and that leaves accumulation where there was some.
func (w *shrinker) cut(p *recipe.Phase, was recipe.Cut, fill int, why string) (recipe.Cut, error) {
	unit := 1
	if p.Task == bert.MultipleChoice {
		unit = p.NumLabels
	}
	if fill == 1 && was.Accumulation > 1 {
		fill, why = 2, "micro-batches, the fewest that accumulate"
	}
	c := recipe.Cut{Replicas: min(was.Replicas, fewReplicas)}
	least := c.Replicas * fill * unit
	if w.Sequences < least || w.Sequences%(c.Replicas*unit) != 0 {
		return c, fmt.Errorf("%d sequences a step are not enough for phase %s, want a multiple of %d, and at least %d: %d replicas x %d %s",
			w.Sequences, p.Name, c.Replicas*unit, least, c.Replicas, fill*unit, why)
	}
	each := w.Sequences / c.Replicas
	most := was.MicroBatch
	if was.Accumulation == 1 && fill == 1 {
		most = each // as before, nothing accumulates
	}
	for c.MicroBatch = min(most, each/fill); each%c.MicroBatch != 0 || c.MicroBatch%unit != 0; {
		c.MicroBatch--
	}
	c.Accumulation = each / c.MicroBatch
	return c, nil
}

func (w *shrinker) cutTo(where string, micro, accumulation, replicas *int, to recipe.Cut) {
	w.change(where+"micro-batch", micro, to.MicroBatch)
	w.change(where+"accumulation", accumulation, to.Accumulation)
	w.change(where+"replicas", replicas, to.Replicas)
}

// backends are the names of the recipe's backends, sorted.
func (w *shrinker) backends() []string { return slices.Sorted(maps.Keys(w.Backends)) }

// settings are those of a backend, NAME or NAME:PRECISION, in a phase.
func (w *shrinker) settings(name string, p *recipe.Phase) recipe.Backend {
	base, precision, _ := strings.Cut(name, ":")
	return w.ForBackend(base, precision, p.Name)
}

func cuts(b recipe.Backend) bool { return b.MicroBatch != 0 || b.Accumulation != 0 || b.Replicas != 0 }

// pipelineFill is the smallest number of micro-batches that keeps all stages of a backend's pipeline busy, and what they
// are for. The heads of pre-training are a stage of their own, see docs/execution.md.
func pipelineFill(b recipe.Backend, p *recipe.Phase) (fill int, why string) {
	ipus, ok := readLayers(b.Options["pipeline"])
	if !ok || len(ipus) == 1 {
		return 1, "micro-batch"
	}
	stages := len(ipus)
	if p.Task == bert.Pretraining {
		stages++
	}
	plan := emulator.Plan{Stages: make([]emulator.Stage, stages), Schedule: emulator.Schedule(b.Options["schedule"])}
	return plan.MinAccumulation(), fmt.Sprintf("micro-batches, which fill its pipeline of %d stages on %d IPUs", stages, len(ipus))
}
