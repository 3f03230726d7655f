// Package shrink makes a recipe small enough for this machine and keeps what makes it the recipe that it is: a
// published recipe of an IPU-POD or a DGX, for 64 sequences a step.
//
// Batch, steps, width, layers and lengths are scaled down, and the text is a generated one. What stays are the IPUs of
// the pipeline, the schedule, how gradients are accumulated and reduced, recomputation, sharding, the number format,
// loss scales, the optimizer with its options, packing, masking, dropout and the shape of the learning rate's schedule.
//
// The highest learning rate stays too. The rules that tie it to the batch, the square root of LAMB's authors (You et al.
// 2020, arXiv:1904.00962, table 4) and the linear one (Goyal et al. 2017, arXiv:1706.02677), hold for a fixed number of
// epochs: a smaller batch makes more steps. Here it makes fewer. LAMB changes a weight by its norm times the rate, so 200
// steps of 0.006/32 could not move the weights by more than 4% of their norm.
package shrink

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

// Settings say how small.
type Settings struct {
	// Sequences of a step, the global batch of every phase; rows where sequences are packed. A batch that is not larger
	// stays as it is.
	Sequences int
	// Steps of the longest phase. Others keep their share of it, and those whose length is in epochs get as many.
	Steps int
}

// Sizes that recipes are scaled to.
const (
	hidden       = 128 // of BERT-Tiny
	fewLayers    = 2   // of a model that is not cut into a pipeline
	fewReplicas  = 2   // as many as reduce gradients
	longLength   = 128 // tokens of a sequence from which on half as many stand for them
	evaluateOn   = 256 // sequences
	evaluateUpTo = 32  // at once
)

// Recipe returns r scaled down. Its doc says what was scaled, from what to what. A recipe whose batch can't be cut over
// its replicas and its pipeline in so few sequences is an error that says how many it takes.
func Recipe(r *recipe.Recipe, s Settings) (*recipe.Recipe, error) {
	if s.Steps < 1 {
		return nil, fmt.Errorf("steps are %d, want at least 1", s.Steps)
	}
	small, err := again(r)
	if err != nil {
		return nil, err
	}
	w := &shrinker{Recipe: small, Settings: s, world: world()}
	if err := w.batches(); err != nil {
		return nil, fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	if err := w.model(); err != nil {
		return nil, fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	w.steps(r)
	w.lengths()
	w.data()
	w.evaluations()
	w.judge()
	w.describe(r)
	return again(small)
}

// shrinker scales a recipe in place.
type shrinker struct {
	*recipe.Recipe
	Settings
	world  *recipe.Recipe // the built-in recipe whose made-up world takes the place of files
	scaled []string       // what was, in words
}

// world is the recipe of the model that quick starts from.
func world() *recipe.Recipe {
	r, err := recipe.Load("start")
	if err != nil {
		panic("shrink: the built-in recipe start does not load") // it is part of the program
	}
	return r
}

// again writes a recipe and reads it, which checks it and shares nothing with it.
func again(r *recipe.Recipe) (*recipe.Recipe, error) {
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		return nil, err
	}
	return recipe.Parse(r.Name, text.Bytes())
}

// change sets a number, and notes what it was.
func (w *shrinker) change(what string, field *int, to int) {
	if *field != to {
		w.scaled = append(w.scaled, fmt.Sprintf("%s %d to %d", what, *field, to))
		*field = to
	}
}

// steps scales the lengths of phases in time, and what counts in steps.
func (w *shrinker) steps(of *recipe.Recipe) {
	longest := 1
	for i := range of.Phases {
		longest = max(longest, fullSteps(&of.Phases[i]))
	}
	for i := range w.Phases {
		p := &w.Phases[i]
		was := fullSteps(&of.Phases[i])
		to := max(1, scaled(was, min(1, float64(w.Steps)/float64(longest))))
		if was == 0 {
			to = w.Steps
		}
		if p.Epochs > 0 {
			w.scaled = append(w.scaled, fmt.Sprintf("%s: epochs %g to steps %d", p.Name, p.Epochs, to))
			p.Epochs, p.Steps = 0, to
		}
		w.change(p.Name+": steps", &p.Steps, to)
		share := float64(to) / float64(max(1, was))
		for _, f := range []struct {
			what  string
			field *int
		}{{"warm-up steps", &p.Schedule.WarmupSteps}, {"steps of equal rate", &p.Schedule.DecayEvery}} {
			if *f.field > 0 {
				w.change(p.Name+": "+f.what, f.field, min(to, max(1, scaled(*f.field, share))))
			}
		}
		for _, name := range w.backends() {
			if of, ok := w.Backends[name].Phases[p.Name]; ok {
				of.OptionsByStep = w.byStep(of.OptionsByStep, share)
				w.Backends[name].Phases[p.Name] = of
			}
		}
	}
	for _, name := range w.backends() {
		b := w.Backends[name]
		b.OptionsByStep = w.byStep(b.OptionsByStep, min(1, float64(w.Steps)/float64(longest)))
		w.Backends[name] = b
	}
}

// fullSteps is the number of steps of a phase, over the published number of examples if it is given in epochs; 0 if that
// is not known.
func fullSteps(p *recipe.Phase) int {
	n := 0
	if t := p.FineTuning(); t != nil {
		n = t.TrainingSequences()
	}
	if p.Steps == 0 && n == 0 {
		return 0
	}
	return p.TotalSteps(n)
}

// byStep scales the steps at which options change.
func (w *shrinker) byStep(options map[string]recipe.Options, share float64) map[string]recipe.Options {
	if options == nil {
		return nil
	}
	out := map[string]recipe.Options{}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		step, _ := strconv.Atoi(key) // which the recipe has checked
		to := strconv.Itoa(scaled(step, share))
		if key != to {
			w.scaled = append(w.scaled, fmt.Sprintf("options of step %s to %s", key, to))
		}
		out[to] = options[key]
	}
	return out
}

// lengths scales sequences. Half of 128 tokens is where packs of sequences of the world hold as many of them, 1.2, as
// Graphcore's do of Wikipedia's (65536 sequences in 54784 packs): its documents have 66 words.
func (w *shrinker) lengths() {
	longest := 0
	for i := range w.Phases {
		p := &w.Phases[i]
		was := p.Length
		if was >= longLength {
			w.change(p.Name+": length", &p.Length, was/2)
		}
		if p.MaxPredictions > 0 {
			w.change(p.Name+": predictions", &p.MaxPredictions, max(1, scaled(p.MaxPredictions, float64(p.Length)/float64(was))))
		}
		if q := p.QuestionAnswering; q != nil {
			w.change(p.Name+": stride", &q.DocStride, max(1, q.DocStride*p.Length/was))
			w.change(p.Name+": tokens of a question", &q.MaxQueryLength, max(1, q.MaxQueryLength*p.Length/was))
			q.MaxAnswerLength = min(q.MaxAnswerLength, p.Length)
		}
		longest = max(longest, p.Length)
	}
	start := w.Start
	if w.starts() {
		start = &recipe.Start{Phases: w.world.Phases}
	}
	if start != nil {
		for _, p := range start.Phases {
			longest = max(longest, p.Length)
		}
	}
	w.change("positions", &w.Model.MaxPositionEmbeddings, longest)
}

// starts reports whether the recipe is one of question answering that begins with somebody's model, whose place a model
// of the world takes.
func (w *shrinker) starts() bool {
	return w.Start == nil && w.Phases[0].Task == bert.QuestionAnswering && w.generates()
}

// generates reports whether the made-up world has the data of all phases: text, and questions as SQuAD's.
func (w *shrinker) generates() bool {
	return !slices.ContainsFunc(w.AllPhases(), func(p recipe.Phase) bool {
		t := p.FineTuning()
		return p.Task != bert.Pretraining && (t == nil || t.Name != "squad")
	})
}

// data puts the made-up world in the place of files.
func (w *shrinker) data() {
	starts := w.starts()
	if !w.generates() {
		w.scaled = append(w.scaled, "data: the files that --data names, as in the recipe")
		return
	}
	w.change("entries of the vocabulary", &w.Vocab.Size, min(w.Vocab.Size, w.world.Vocab.Size))
	w.Model.VocabSize = 0
	if w.Data.Kind != recipe.GeneratedData {
		w.Data = w.world.Data
		w.scaled = append(w.scaled, fmt.Sprintf("data: files to a made-up world of %d people", w.Data.Generated.People))
	}
	if !starts {
		return
	}
	none := 0.
	w.Start = &recipe.Start{Name: w.world.Name, Seed: 1, Phases: slices.Clone(w.world.Phases)}
	for i := range w.Start.Phases {
		w.Start.Phases[i].HiddenDropoutProb, w.Start.Phases[i].AttentionProbsDropoutProb = &none, &none
	}
	w.scaled = append(w.scaled, "start: a published model to one of the recipe start, without dropout")
}

// evaluations makes them few and small, and drops goals for the full size.
func (w *shrinker) evaluations() {
	for i := range w.Phases {
		p := &w.Phases[i]
		e := &p.Evaluation
		if e.Batch = min(e.Batch, evaluateUpTo); p.Task == bert.Pretraining {
			e.Sequences = evaluateOn
		}
		if e.Every = 0; e.KeepBest || e.Patience > 0 {
			e.Every = max(1, p.Steps/10)
		}
		p.Target, p.CheckpointEvery = nil, 0
	}
}

// describe says what was scaled, and names the full size.
func (w *shrinker) describe(of *recipe.Recipe) {
	w.Name = of.Name + "-small"
	w.Doc = fmt.Sprintf("%s, scaled down to %d sequences a step. Scaled, from what to what:\n- %s\nThe highest learning rate is kept, %s.\n",
		of.Name, w.Sequences, strings.Join(w.scaled, "\n- "), "and so is everything that is not listed; see docs/recipes.md")
	w.Counterpart = nil
	if !slices.Contains(recipe.Names(), of.Name) {
		return // a file, which may not lie where the small recipe is read
	}
	c := &recipe.Counterpart{Doc: of.Name, Backends: map[string]recipe.FullSize{}}
	for name, b := range w.Backends {
		if !strings.Contains(name, ":") && b.Options["system"] != "" {
			c.Backends[name] = recipe.FullSize{Recipes: []string{of.Name}}
		}
	}
	if len(c.Backends) > 0 {
		w.Counterpart = c
	}
}

// scaled is a share of a number, rounded.
func scaled(n int, share float64) int { return int(math.Round(float64(n) * share)) }
