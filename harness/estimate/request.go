// Package estimate models the phases of a recipe on a named system, without training: in come a recipe or a few
// numbers in place of one, out go the time and memory of a step, what would make it fit, and sweeps over other ways
// to cut the batch. A backend's Estimator does the modelling; all times are modelled.
package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/recipe"
)

// Request says what to model. A field that is not zero takes precedence over the recipe.
type Request struct {
	Backend string   // NAME or NAME:PRECISION
	System  string   // name of a system, or the path of a YAML file that describes one; "": the recipe's or the backend's
	Recipe  string   // name or path; "": the fields below describe one phase
	Set     []string // overrides of the recipe's fields

	Model          string            // size, such as large; without a recipe base
	Task           string            // pretraining or squad, without a recipe
	Length         int               // tokens of a sequence; without a recipe 128, or 384 for squad
	MaxPredictions int               // masked positions of a sequence; without a recipe as published for the length
	MicroBatch     int               // sequences that a device takes at once; without a recipe 1
	Accumulation   int               // micro-batches of a replica per update; without a recipe 16
	Replicas       int               // without a recipe 1
	Options        map[string]string // of the backend
	Precision      string
	Optimizer      string  // without a recipe lamb, or adamw for squad
	Packing        float64 // sequences of the data in one sequence of the model
	Samples        int     // sequences of the training data, for phases whose length is in epochs
}

// Job is a phase to be modelled.
type Job struct {
	Phase   string
	Steps   int    // of the phase; 0: not known without its data
	Length  string // where Steps comes from when the recipe does not give it
	Program backend.Program
	// Optimizer is what the phase trains with. What its update costs is in Machine once a session has begun.
	Optimizer recipe.Optimizer
	Machine   backend.Machine
}

// Estimation is a request with the recipe that it means and a job for each of its phases.
type Estimation struct {
	Request
	Jobs   []Job
	recipe *recipe.Recipe
}

// New reads the recipe of a request, or makes one from its fields, and applies the fields to every phase.
func New(q Request) (*Estimation, error) {
	description := ""
	if strings.ContainsRune(q.System, '/') || strings.HasSuffix(q.System, ".yaml") || strings.HasSuffix(q.System, ".yml") {
		text, err := bounded.ReadFile(q.System, bounded.MiB)
		if err != nil {
			return nil, fmt.Errorf("--system: %w", err)
		}
		description = string(text)
	}
	r, err := q.load()
	if err != nil {
		return nil, err
	}
	e := &Estimation{Request: q, recipe: r}
	name, precision, _ := strings.Cut(q.Backend, ":")
	for i := range r.Phases {
		p := &r.Phases[i]
		program, err := r.Program(p, name, precision, r.Vocab.Size, 0)
		if err != nil {
			return nil, err
		}
		j := Job{
			Phase: p.Name, Program: program, Optimizer: p.OptimizerNamed(q.Optimizer),
			Machine: backend.Machine{Packing: q.Packing, Description: description},
		}
		if description == "" {
			j.Machine.System = q.System
		}
		if err := q.override(&j.Program); err != nil {
			return nil, err
		}
		if q.Recipe != "" {
			q.count(&j, r, p)
		}
		if err := j.Program.Validate(); err != nil {
			return nil, fmt.Errorf("phase %s: %w", p.Name, err)
		}
		e.Jobs = append(e.Jobs, j)
	}
	return e, nil
}

// load reads the recipe. Without one the fields make a recipe with a single phase, and IPUs have the model as
// published.
func (q *Request) load() (*recipe.Recipe, error) {
	if q.Recipe != "" {
		return recipe.Load(q.Recipe, q.Set...)
	}
	task, length, optimizer, predictions := bert.Pretraining, cmp.Or(q.Length, 128), "lamb", ""
	if q.Task == "squad" {
		task, length, optimizer = bert.QuestionAnswering, cmp.Or(q.Length, 384), "adamw"
	} else {
		predictions = fmt.Sprintf("max_predictions: %d, ", cmp.Or(q.MaxPredictions, publishedPredictions(length)))
	}
	return recipe.Parse("command line", fmt.Appendf(nil, `
model: {size: %s}
phases:
- {name: %s, task: %s, length: %d, %smicro_batch: %d, accumulation: %d, replicas: %d, steps: 1, schedule: {learning_rate: 1},
   optimizer: {name: %s}}
backends: {ipu: {options: {pipeline: published}}}
`, cmp.Or(q.Model, "base"), cmp.Or(q.Task, "pretraining"), task, length, predictions, cmp.Or(q.MicroBatch, 1), cmp.Or(q.Accumulation, 16),
		cmp.Or(q.Replicas, 1), optimizer), q.Set...)
}

// publishedPredictions is how many positions published recipes mask: about 15% of the tokens.
func publishedPredictions(length int) int {
	known := map[int]int{128: 20, 384: 56, 512: 76}
	return cmp.Or(known[length], (length*15+99)/100)
}

// override puts the fields of a request over those of a program.
func (q *Request) override(p *backend.Program) error {
	if q.Model != "" {
		var err error
		if p.Model, err = p.Model.Size(q.Model); err != nil {
			return err
		}
	}
	p.Length = cmp.Or(q.Length, p.Length)
	if p.Head.Task == bert.Pretraining {
		p.MaxPredictions = cmp.Or(q.MaxPredictions, p.MaxPredictions)
	}
	p.MicroBatch = cmp.Or(q.MicroBatch, p.MicroBatch)
	p.Accumulation = cmp.Or(q.Accumulation, p.Accumulation)
	p.Replicas = cmp.Or(q.Replicas, p.Replicas)
	p.Precision = cmp.Or(q.Precision, p.Precision)
	if len(q.Options) > 0 {
		if p.Options = maps.Clone(p.Options); p.Options == nil {
			p.Options = map[string]string{}
		}
		maps.Copy(p.Options, q.Options)
	}
	return nil
}

// count finds the steps of a phase. A phase whose length is in epochs counts them over the sequences of the request,
// of the generated data, or of the task's published files.
func (q *Request) count(j *Job, r *recipe.Recipe, p *recipe.Phase) {
	if p.Steps > 0 {
		j.Steps = p.Steps
		return
	}
	n, of := q.Samples, "--samples"
	if n == 0 && p.Task == bert.QuestionAnswering && r.Data.Kind == recipe.GeneratedData {
		n, of = r.Data.Generated.Questions, "the generated questions"
	}
	if t := p.FineTuning(); n == 0 && t != nil && r.Data.Kind != recipe.GeneratedData {
		n, of = t.TrainingSequences(), t.Name+" as published"
	}
	if n == 0 {
		j.Length = fmt.Sprintf("%g epochs: --samples says of how many sequences", p.Epochs)
		return
	}
	cut := *p
	cut.GlobalBatch = j.Program.GlobalBatch()
	j.Steps, j.Length = cut.TotalSteps(n), fmt.Sprintf("%g epochs of %d sequences: %s", p.Epochs, n, of)
}
