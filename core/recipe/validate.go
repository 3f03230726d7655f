package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/filename"
	"harness.invalid/core/spelling"
)

// fieldError is a mistake in the field at a path.
type fieldError struct {
	path []string
	err  error
}

func (e *fieldError) Error() string { return strings.Join(e.path, ".") + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

func wrong(err error, path ...string) error { return &fieldError{path, err} }

// oneOf returns an error if text is none of the choices.
func oneOf[T ~string](text T, choices []string) error {
	if slices.Contains(choices, string(text)) {
		return nil
	}
	return fmt.Errorf("is %q, want one of %s%s", text, strings.Join(choices, ", "), spelling.Hint(string(text), choices))
}

// settle fills in fields that follow from others, drops fields that a task does not use, and reports the first
// invalid field.
func (r *Recipe) settle() error {
	if err := filename.CheckPath(r.Name); err != nil {
		return wrong(err, "name")
	}
	config := r.Model.Config
	if config.VocabSize == 0 {
		config.VocabSize = max(r.Vocab.Size, 1) // known when the vocabulary is
	}
	if err := config.Validate(); err != nil {
		return wrong(err, "model")
	}
	if r.Model.Initializer == bert.TruncatedNormal {
		r.Model.Initializer = "" // one spelling, one fingerprint
	}
	if r.Model.Initializer != "" {
		if err := oneOf(r.Model.Initializer, bert.Initializers()); err != nil {
			return wrong(err, "model", "initializer")
		}
	}
	if r.Vocab.Size < 32 || r.Vocab.Size > 1<<24 {
		return wrong(fmt.Errorf("is %d, want 32 to %d", r.Vocab.Size, 1<<24), "vocab", "size")
	}
	if r.Vocab.PadToMultipleOf < 1 || r.Vocab.PadToMultipleOf > 1024 {
		return wrong(fmt.Errorf("is %d, want 1 to 1024", r.Vocab.PadToMultipleOf), "vocab", "pad_to_multiple_of")
	}
	if err := r.Data.settle(); err != nil {
		return err
	}
	if err := r.settleStart(); err != nil {
		return err
	}
	if err := r.settlePhases(); err != nil {
		return err
	}
	if r.Restarts < 0 || r.Restarts > MostRestarts {
		return wrong(fmt.Errorf("is %d, want 0 to %d", r.Restarts, MostRestarts), "restarts")
	}
	if err := r.validateBackends(); err != nil {
		return err
	}
	if err := r.validateCounterpart(); err != nil {
		return err
	}
	return r.settleVerdict()
}

// MostRestarts is the greatest number of restarts that a run may have.
const MostRestarts = 1000

// settlePhases settles all phases.
func (r *Recipe) settlePhases() error {
	if len(r.Phases) == 0 {
		return wrong(fmt.Errorf("is empty, want at least one phase"), "phases")
	}
	seen := make(map[string]bool)
	for i := range r.Phases {
		p := &r.Phases[i]
		if p.Name == "" {
			return wrong(fmt.Errorf("has no name"), "phases", fmt.Sprint(i))
		}
		if err := filename.Check(p.Name); err != nil {
			return wrong(err, "phases", fmt.Sprint(i), "name")
		}
		if seen[p.Name] {
			return wrong(fmt.Errorf("two phases are named %s", p.Name), "phases", fmt.Sprint(i), "name")
		}
		seen[p.Name] = true
		if err := r.settlePhase(p); err != nil {
			return err
		}
		if p.CarryOptimizerState && (i == 0 || r.Phases[i-1].Optimizer.Name != p.Optimizer.Name) {
			return wrong(fmt.Errorf("is true, but no phase before it has the optimizer %s", p.Optimizer.Name), "phases", p.Name,
				"carry_optimizer_state")
		}
	}
	return nil
}

func (d *Data) settle() error {
	if err := oneOf(d.Kind, dataKinds); err != nil {
		return wrong(err, "data", "kind")
	}
	if !(d.HeldOut > 0 && d.HeldOut < 1) {
		return wrong(fmt.Errorf("is %g, want more than 0 and less than 1", d.HeldOut), "data", "held_out")
	}
	if err := d.Files.settleFiles(); err != nil {
		return err
	}
	if d.Kind != GeneratedData {
		d.Generated = Generated{} // of a recipe whose kind was changed
		return nil
	}
	g := d.Generated
	for _, f := range []struct {
		key   string
		value int
		min   int
	}{{"seed", g.Seed, 0}, {"people", g.People, 50}, {"questions", g.Questions, 1}, {"dev_questions", g.DevQuestions, 1}} {
		if f.value < f.min || f.value > 1<<24 {
			return wrong(fmt.Errorf("is %d, want %d to %d", f.value, f.min, 1<<24), "data", "generated", f.key)
		}
	}
	return nil
}

func (r *Recipe) settlePhase(p *Phase) error {
	at := func(err error, keys ...string) error {
		return wrong(err, append([]string{"phases", p.Name}, keys...)...)
	}
	if err := p.settleDataset(at); err != nil {
		return err
	}
	if err := p.Head().Validate(); err != nil {
		return at(err, "num_labels")
	}
	if limit := r.Model.MaxPositionEmbeddings; p.Length < 8 || p.Length > limit {
		return at(fmt.Errorf("is %d, want 8 to %d (model.max_position_embeddings)", p.Length, limit), "length")
	}
	if err := p.settleTask(at); err != nil {
		return err
	}
	global, c, err := cut(p.GlobalBatch, p.MicroBatch, p.Accumulation, p.Replicas)
	if err != nil {
		return at(err)
	}
	p.GlobalBatch, p.MicroBatch, p.Accumulation, p.Replicas = global, c.MicroBatch, c.Accumulation, c.Replicas
	switch {
	case p.Task == bert.MultipleChoice && p.MicroBatch%p.NumLabels != 0:
		return at(fmt.Errorf("is %d, want a multiple of the %d choices of a question, each of which is a sequence", p.MicroBatch,
			p.NumLabels), "micro_batch")
	case p.Steps < 0 || p.Steps > 1<<30:
		return at(fmt.Errorf("is %d, want 1 to %d", p.Steps, 1<<30), "steps")
	case !(p.Epochs >= 0 && p.Epochs <= 1<<20):
		return at(fmt.Errorf("is %g, want more than 0", p.Epochs), "epochs")
	case p.Epochs > 0 && p.Task == bert.Pretraining && r.Data.Kind != PreparedData:
		return at(fmt.Errorf("is given, but the number of sequences in a text is not known in advance: want steps, or prepared data"), "epochs")
	case p.Epochs > 0 && p.SequencesPerPack > 1:
		return at(fmt.Errorf("is given, but the number of packs of an epoch is not known in advance: want steps"), "epochs")
	case (p.Steps > 0) == (p.Epochs > 0):
		return at(fmt.Errorf("steps is %d and epochs is %g, want one of the two", p.Steps, p.Epochs), "steps")
	}
	if err := p.validateTraining(at); err != nil {
		return err
	}
	if err := p.PhaseModel(modelOf(r)).Validate(); err != nil {
		return at(err)
	}
	return nil
}

func modelOf(r *Recipe) bert.Config {
	c := r.Model.Config
	c.VocabSize = max(c.VocabSize, 1)
	return c
}

// settleTask checks fields that only some tasks use, and drops those that a phase inherited without using them.
func (p *Phase) settleTask(at func(error, ...string) error) error {
	if p.Task != bert.Pretraining {
		p.MaxPredictions, p.Masking, p.SequencesPerPack = 0, nil, 0
	}
	if p.Task != bert.QuestionAnswering {
		p.QuestionAnswering = nil
	}
	switch p.Task {
	case bert.Pretraining:
		if p.MaxPredictions < 1 || p.MaxPredictions > p.Length {
			return at(fmt.Errorf("is %d, want 1 to length %d", p.MaxPredictions, p.Length), "max_predictions")
		}
		// A sequence has three special tokens and at least one token of each segment.
		if q := p.SequencesPerPack; q < 0 || q > 1 && (q > p.Length/5 || p.MaxPredictions+q-1 > p.Length) {
			return at(fmt.Errorf("is %d, want 0 or 1 (none), or at most as many as fit in rows of %d tokens", q, p.Length), "sequences_per_pack")
		}
		if p.Masking == nil {
			p.Masking = new(Masking)
			p.Masking.setDefaults()
		}
		m := p.Masking
		if err := oneOf(m.Kind, []string{StaticMasking, DynamicMasking}); err != nil {
			return at(err, "masking", "kind")
		}
		switch {
		case m.DupeFactor < 1 || m.DupeFactor > 1<<16:
			return at(fmt.Errorf("is %d, want 1 to %d", m.DupeFactor, 1<<16), "masking", "dupe_factor")
		case !(m.MaskedLMProb > 0 && m.MaskedLMProb < 1):
			return at(fmt.Errorf("is %g, want more than 0 and less than 1", m.MaskedLMProb), "masking", "masked_lm_prob")
		case !(m.ShortSeqProb >= 0 && m.ShortSeqProb <= 1):
			return at(fmt.Errorf("is %g, want 0 to 1", m.ShortSeqProb), "masking", "short_seq_prob")
		}
	case bert.QuestionAnswering:
		if p.QuestionAnswering == nil {
			p.QuestionAnswering = new(QuestionAnswering)
			p.QuestionAnswering.setDefaults()
		}
		q := p.QuestionAnswering
		for _, f := range []struct {
			key        string
			value, max int
		}{
			{"doc_stride", q.DocStride, p.Length}, {"n_best", q.NBest, 1 << 10},
			{"max_answer_length", q.MaxAnswerLength, p.Length}, {"max_query_length", q.MaxQueryLength, p.Length - 4},
		} {
			if f.value < 1 || f.value > f.max {
				return at(fmt.Errorf("is %d, want 1 to %d", f.value, f.max), "question_answering", f.key)
			}
		}
	}
	return nil
}

func (p *Phase) validateTraining(at func(error, ...string) error) error {
	if field, err := p.Schedule.validate(); err != nil {
		return at(err, "schedule", field)
	}
	if p.Steps > 0 && p.Schedule.WarmupSteps > p.Steps {
		return at(fmt.Errorf("is %d, want at most the %d steps of the phase", p.Schedule.WarmupSteps, p.Steps), "schedule", "warmup_steps")
	}
	// Start and end rates are for the scaled batch.
	peak := p.OptimizerNamed("").LearningRate
	for _, f := range []struct {
		key   string
		value float64
	}{{"start_learning_rate", p.Schedule.StartLearningRate}, {"end_learning_rate", p.Schedule.EndLearningRate}} {
		if !(f.value >= 0 && f.value <= peak) {
			return at(fmt.Errorf("is %g, want 0 to the highest rate %g", f.value, peak), "schedule", f.key)
		}
	}
	if p.Schedule.StartLearningRate > 0 && p.Schedule.WarmupSteps == 0 && p.Schedule.WarmupRatio == 0 {
		return at(fmt.Errorf("is %g, but there is no warm-up: want warmup_steps or warmup_ratio", p.Schedule.StartLearningRate),
			"schedule", "start_learning_rate")
	}
	if p.Optimizer.Name == "" {
		return at(fmt.Errorf("is not given, want a plugin such as adamw or lamb"), "optimizer", "name")
	}
	if !(p.Optimizer.LearningRate >= 0 && p.Optimizer.LearningRate <= 100) {
		return at(fmt.Errorf("is %g, want 0 to 100", p.Optimizer.LearningRate), "optimizer", "learning_rate")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Alternatives)) {
		o := p.Alternatives[name]
		if o.Name != "" && o.Name != name {
			return at(fmt.Errorf("is %q, want nothing or %q", o.Name, name), "alternatives", name, "name")
		}
		if !(o.LearningRate >= 0 && o.LearningRate <= 100) {
			return at(fmt.Errorf("is %g, want 0 to 100", o.LearningRate), "alternatives", name, "learning_rate")
		}
		o.Name = name
		p.Alternatives[name] = o
	}
	for _, f := range []struct {
		value, min int
		keys       []string
	}{
		{p.Evaluation.Every, 0, []string{"evaluation", "every"}}, {p.Evaluation.Batch, 1, []string{"evaluation", "batch"}},
		{p.Evaluation.Sequences, 0, []string{"evaluation", "sequences"}}, {p.CheckpointEvery, 0, []string{"checkpoint_every"}},
	} {
		if f.value < f.min || f.value > 1<<30 {
			return at(fmt.Errorf("is %d, want %d to %d", f.value, f.min, 1<<30), f.keys...)
		}
	}
	if t := p.Target; t != nil {
		if err := p.measures(t.Metric); err != nil {
			return at(err, "target", "metric")
		}
	}
	return p.validateBest(at)
}

func (r *Recipe) validateBackends() error {
	for _, name := range slices.Sorted(maps.Keys(r.Backends)) {
		b := r.Backends[name]
		for _, phase := range slices.Sorted(maps.Keys(b.Phases)) {
			if _, ok := r.Phase(phase); !ok {
				return wrong(fmt.Errorf("no phase has that name, want one of %s", strings.Join(r.phaseNames(), ", ")), "backends", name,
					"phases", phase)
			}
			if b.Phases[phase].Phases != nil {
				return wrong(fmt.Errorf("phases have no phases"), "backends", name, "phases", phase, "phases")
			}
			if _, err := changes(b.Phases[phase].OptionsByStep); err != nil {
				return wrong(err, "backends", name, "phases", phase, "options_by_step")
			}
		}
		if _, err := changes(b.OptionsByStep); err != nil {
			return wrong(err, "backends", name, "options_by_step")
		}
		base, precision, _ := strings.Cut(name, ":")
		for i := range r.Phases {
			if _, err := r.Phases[i].Cut(r.ForBackend(base, precision, r.Phases[i].Name)); err != nil {
				return wrong(err, "backends", name)
			}
		}
	}
	return nil
}

func (r *Recipe) phaseNames() []string {
	names := make([]string, len(r.Phases))
	for i, p := range r.Phases {
		names[i] = p.Name
	}
	return names
}

// measured returns an error if no phase measures a metric, NAME or PHASE.NAME.
func (r *Recipe) measured(name string) error {
	var known []string
	for _, p := range r.Phases {
		for _, m := range p.Metrics() {
			known = append(known, p.Name+"."+m.Name)
			if !slices.Contains(known, m.Name) {
				known = append(known, m.Name)
			}
		}
	}
	if slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("no phase measures %q%s (known: %s)", name, spelling.Hint(name, known), strings.Join(known, ", "))
}
