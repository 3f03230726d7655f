package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
)

// squadName is the default data set of question answering. A settled recipe leaves it out, so that naming it does
// not change the fingerprint.
const squadName = "squad"

// FineTuning is the task of the phase's data set; nil for pre-training, and for a classification without one.
func (p *Phase) FineTuning() *tasks.Task {
	name := p.Dataset
	if name == "" && p.Task == bert.QuestionAnswering {
		name = squadName
	}
	t, err := tasks.Named(name)
	if err != nil {
		return nil
	}
	if t.Open && len(p.Labels) > 0 {
		return t.With(p.Labels)
	}
	return t
}

// Metrics lists what an evaluation of the phase measures, in the order of tables.
func (p *Phase) Metrics() []Metric {
	t := p.FineTuning()
	var list []Metric
	for _, m := range metrics {
		if m.Of(p.Task) && (t == nil || m.ofEvery() || t.Measures(m.Name)) {
			list = append(list, m)
		}
	}
	return list
}

// Judge is the metric that decides which of two evaluations is better.
func (p *Phase) Judge() Metric {
	name := p.Evaluation.Metric
	if t := p.FineTuning(); name == "" && t != nil {
		name = t.Metrics[0]
	}
	m, ok := MetricNamed(name)
	if !ok {
		m = metrics[0] // the loss
	}
	return m
}

// settleDataset fills in the fields that follow from the data set.
func (p *Phase) settleDataset(at func(error, ...string) error) error {
	var known []string
	for _, t := range bert.Tasks() {
		known = append(known, string(t))
	}
	if err := oneOf(p.Task, known); err != nil {
		return at(err, "task")
	}
	if p.Dataset == "" {
		if p.Task == bert.Pretraining || p.Task == bert.QuestionAnswering {
			p.NumLabels = 0
		}
		return nil
	}
	t, err := tasks.Named(p.Dataset)
	if err != nil {
		return at(err, "dataset")
	}
	// A phase that names no task has that of pre-training, as the default.
	if p.Task != bert.Pretraining && p.Task != t.Kind {
		return at(fmt.Errorf("is %s, but the data set %s is for %s", p.Task, t.Name, t.Kind), "task")
	}
	switch {
	case len(p.Labels) == 0:
	case !t.Open:
		return at(fmt.Errorf("is given, but the data set %s has its own", t.Name), "labels")
	default:
		t = t.With(p.Labels)
	}
	if p.NumLabels != 0 && p.NumLabels != t.NumLabels() {
		return at(fmt.Errorf("is %d, but the data set %s has %d", p.NumLabels, t.Name, t.NumLabels()), "num_labels")
	}
	p.Task, p.NumLabels, p.Dataset = t.Kind, t.NumLabels(), t.Name
	if p.Dataset == squadName {
		p.Dataset = ""
	}
	return nil
}

// settleFiles normalizes the names of tasks.
func (f *Files) settleFiles() error {
	for _, name := range slices.Sorted(maps.Keys(f.Tasks)) {
		t, err := tasks.Named(name)
		if err != nil {
			return wrong(err, "data", "files", "tasks", name)
		}
		if t.Name != name {
			files := f.Tasks[name]
			delete(f.Tasks, name)
			f.Set(t.Name, files)
		}
	}
	return nil
}

// validateBest checks early stopping and the best checkpoint.
func (p *Phase) validateBest(at func(error, ...string) error) error {
	e := &p.Evaluation
	switch {
	case e.Patience < 0 || e.Patience > 1<<30:
		return at(fmt.Errorf("is %d, want 0 to %d", e.Patience, 1<<30), "evaluation", "patience")
	case e.Patience > 0 && e.Every == 0:
		return at(fmt.Errorf("is %d, but the phase is only evaluated at its end: want evaluation.every", e.Patience), "evaluation", "patience")
	case e.Metric != "":
		if err := p.measures(e.Metric); err != nil {
			return at(err, "evaluation", "metric")
		}
	}
	return nil
}

// measures returns an error if the phase has no such metric.
func (p *Phase) measures(name string) error {
	var names []string
	for _, m := range p.Metrics() {
		names = append(names, m.Name)
	}
	if err := oneOf(name, names); err != nil {
		task := string(p.Task)
		if t := p.FineTuning(); t != nil {
			task = t.Name
		}
		return fmt.Errorf("%w (task %s)", err, task)
	}
	return nil
}

// fineTuningMargin is the default margin of a metric, in points.
const fineTuningMargin = 1

// LoadFineTuning loads a recipe for one task. It keeps the phases on that task; if there are none, it takes the
// first phase of the task's kind with its settings, such as SQuAD's for another set of questions. Other phases are
// dropped. The data are files.
func LoadFineTuning(ref, task string, overrides ...string) (*Recipe, error) {
	t, err := tasks.Named(task)
	if err != nil {
		return nil, err
	}
	root, err := newReader(ref).resolve(ref, "", nil)
	if err != nil {
		return nil, err
	}
	return finish(root, nameOf(ref), overrides, func(r *Recipe) error { return r.only(t) })
}

// only keeps the phases on a task. The recipe is not settled yet.
func (r *Recipe) only(t *tasks.Task) error {
	var phases []Phase
	similar := -1
	for i, p := range r.Phases {
		of := p.FineTuning()
		switch {
		case of == nil:
		case of.Name == t.Name:
			phases = append(phases, p)
		case of.Kind == t.Kind && similar < 0:
			similar = i
		}
	}
	if len(phases) == 0 {
		if similar < 0 {
			return fmt.Errorf("recipe %s has no phase that fine-tunes on %s, and none of its kind (%s)", r.Name, t.Name, t.Kind)
		}
		p := r.Phases[similar]
		p.Task, p.Dataset, p.NumLabels, p.Labels, p.Target, p.Evaluation.Metric = t.Kind, t.Name, 0, nil, nil, ""
		phases = []Phase{p}
	}
	r.Phases, r.Start = phases, nil
	for _, b := range r.Backends {
		maps.DeleteFunc(b.Phases, func(name string, _ Backend) bool { _, ok := r.Phase(name); return !ok })
	}
	r.Data.Kind, r.Data.Generated = FilesData, Generated{}
	measured := func(name string) bool {
		phase, metric, ok := strings.Cut(name, ".")
		if !ok {
			metric = name
		} else if _, there := r.Phase(phase); !there {
			return false
		}
		m, ok := MetricNamed(metric)
		return ok && m.Of(t.Kind) && m.ofEvery() || t.Measures(metric)
	}
	maps.DeleteFunc(r.Verdict.Margins, func(name string, _ float64) bool { return !measured(name) })
	if !measured(r.Verdict.Primary) {
		r.Verdict.Primary = t.Metrics[0]
	}
	if _, ok := r.Verdict.Margins[r.Verdict.Primary]; !ok {
		if r.Verdict.Margins == nil {
			r.Verdict.Margins = make(map[string]float64)
		}
		r.Verdict.Margins[r.Verdict.Primary] = fineTuningMargin
	}
	return nil
}
