// Package recipe is what a run is: model, data, and phases of training with their lengths, batches, steps,
// schedules and optimizers, in one file.
//
// A recipe is YAML. Load reads it strictly (a key that is not known is an error with its place and the nearest
// known one), lays it over the recipe that it extends, applies overrides from the command line and checks every
// field. The result is plain data, complete with all defaults: the training loop reads nothing else, and a run
// stores it as it was resolved.
//
// Two runs may be compared when their recipes have the same Fingerprint. It covers every field that can change a
// number, except the settings of a single backend.
package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"harness.invalid/core/bert"
)

// Recipe is one experiment.
type Recipe struct {
	// Name is what commands and tables call the recipe: the file's name without .yaml unless given.
	Name string `yaml:"name" json:"name"`
	// Doc says in a line or two what the recipe is for.
	Doc string `yaml:"doc,omitempty" json:"doc,omitempty"`
	// Source says where its values come from: a paper, or a file of a published system.
	Source string `yaml:"source,omitempty" json:"source,omitempty"`

	Model  Model   `yaml:"model" json:"model"`
	Vocab  Vocab   `yaml:"vocab" json:"vocab"`
	Data   Data    `yaml:"data" json:"data"`
	Phases []Phase `yaml:"phases" json:"phases"`

	// Backends are settings of single backends, by name (ipu) or by name and precision (gpu-ref:fp16). They are not
	// part of the fingerprint.
	Backends map[string]Backend `yaml:"backends,omitempty" json:"backends,omitempty"`
	// Verdict says what makes two backends equivalent. It is not part of the fingerprint.
	Verdict Verdict `yaml:"verdict" json:"verdict"`
}

// Model is the shape of the network: a published size, or any of Hugging Face's keys, which go before the size's.
type Model struct {
	// Size is tiny, mini, small, medium, base or large; empty: base, changed by the keys that are given.
	Size        string `yaml:"size,omitempty" json:"size,omitempty"`
	bert.Config `yaml:",inline"`
	// Initializer is how initial values are drawn: truncated_normal, normal (Hugging Face's) or nvidia; empty:
	// truncated_normal.
	Initializer bert.Initializer `yaml:"initializer,omitempty" json:"initializer,omitempty"`
}

// Vocab is the vocabulary and how text is cut into its pieces.
type Vocab struct {
	// Size is the number of entries to learn from the text when no vocabulary file is given.
	Size int `yaml:"size" json:"size"`
	// Lowercase folds case and strips accents, as the uncased models do.
	Lowercase bool `yaml:"lowercase" json:"lowercase"`
	// PadToMultipleOf rounds the model's vocab_size up, as NVIDIA does to 8 (30528): the entries added are never seen.
	PadToMultipleOf int `yaml:"pad_to_multiple_of" json:"pad_to_multiple_of"`
}

// Data says where text and questions come from.
type Data struct {
	// Kind is generated (a world made up from a seed, the same everywhere), files, or prepared (files, of which the
	// text was prepared by harness data prepare).
	Kind string `yaml:"kind" json:"kind"`
	// Generated sets the size of the made-up world.
	Generated Generated `yaml:"generated,omitempty" json:"generated"`
	// Files are paths, seen from the working folder and mostly given on the command line (--data squad.train=FILE).
	// They are not part of the fingerprint: runs store a digest of what the files hold.
	Files Files `yaml:"files,omitempty" json:"-"`
	// HeldOut is the share of documents that is kept from training to evaluate pre-training on.
	HeldOut float64 `yaml:"held_out" json:"held_out"`
}

// The kinds of data.
const (
	GeneratedData = "generated"
	FilesData     = "files"
	PreparedData  = "prepared"
)

var dataKinds = []string{GeneratedData, FilesData, PreparedData}

// Generated is the size of the made-up world.
type Generated struct {
	// Seed makes one world; the seed of a run does not change it.
	Seed int `yaml:"seed" json:"seed"`
	// People is the number of people, each with a document of facts and with questions about them.
	People int `yaml:"people" json:"people"`
	// Questions is the number of questions to train on.
	Questions int `yaml:"questions" json:"questions"`
	// DevQuestions is the number of questions to evaluate on, about people that no training question mentions.
	DevQuestions int `yaml:"dev_questions" json:"dev_questions"`
}

// Files are the data sets by name.
type Files struct {
	// Text files for pre-training: one sentence a line, a blank line between documents. They may be compressed with
	// gzip, zstd or bzip2.
	Text []string `yaml:"text,omitempty"`
	// Prepared are folders that harness data prepare wrote, one for each length of a sequence in the recipe.
	Prepared []string `yaml:"prepared,omitempty"`
	// Vocab is a vocabulary with one entry a line; none: one is learned from the text.
	Vocab string `yaml:"vocab,omitempty"`
	// Model is a folder in Hugging Face's format whose parameters training starts from; its config.json goes before
	// the recipe's model, and its vocab.txt is the vocabulary unless another one is given.
	Model string `yaml:"model,omitempty"`
	// SQuAD v1.1 in its own JSON format.
	SQuAD TaskFiles `yaml:"squad,omitempty"`
	// Tasks are the files of all other tasks, by their names.
	Tasks map[string]TaskFiles `yaml:"tasks,omitempty"`
}

// TaskFiles are the examples of a task, as its makers distribute them.
type TaskFiles struct {
	// Train is what is fine-tuned on.
	Train []string `yaml:"train,omitempty"`
	// Dev is what is evaluated on.
	Dev []string `yaml:"dev,omitempty"`
}

// Of are the files of a task.
func (f *Files) Of(task string) TaskFiles {
	if task == squadName {
		return f.SQuAD
	}
	return f.Tasks[task]
}

// Set sets the files of a task.
func (f *Files) Set(task string, files TaskFiles) {
	if task == squadName {
		f.SQuAD = files
		return
	}
	if f.Tasks == nil {
		f.Tasks = make(map[string]TaskFiles)
	}
	f.Tasks[task] = files
}

// Backend is how one backend runs the recipe.
type Backend struct {
	// Precision is one of the backend's number formats; empty: its default. A precision on the command line
	// (gpu-ref:fp16) goes before.
	Precision string `yaml:"precision,omitempty" json:"precision,omitempty"`
	// Options are the backend's own.
	Options Options `yaml:"options,omitempty" json:"options,omitempty"`
	// OptionsByStep change options in the middle of a phase: by the number of steps of the phase that are done,
	// from the step after them on. So a loss scale follows a schedule: options {loss_scale: 4096}, options_by_step
	// {1500: {loss_scale: 256}}.
	OptionsByStep map[string]Options `yaml:"options_by_step,omitempty" json:"options_by_step,omitempty"`
	// MicroBatch cuts the global batch another way than the phase does. When it, accumulation or replicas is given,
	// none of the phase's is used.
	MicroBatch int `yaml:"micro_batch,omitempty" json:"micro_batch,omitempty"`
	// Accumulation is the number of micro-batches that a device adds up.
	Accumulation int `yaml:"accumulation,omitempty" json:"accumulation,omitempty"`
	// Replicas is the number of devices.
	Replicas int `yaml:"replicas,omitempty" json:"replicas,omitempty"`
	// Phases change the settings in single phases, by name.
	Phases map[string]Backend `yaml:"phases,omitempty" json:"phases,omitempty"`
}

// Options are settings of a plugin as text; the plugin says which it knows.
type Options map[string]string

// Verdict is the rule of the comparison.
type Verdict struct {
	// Primary is the metric that decides the comparison; the others are reported beside it.
	Primary string `yaml:"primary" json:"primary"`
	// Margins are, by metric, the greatest differences that do not matter. Two backends are equivalent in a metric
	// when the confidence interval of their difference lies within its margin.
	Margins map[string]float64 `yaml:"margins" json:"margins"`
	// Alpha is the probability of calling two backends equivalent, or different, that are not.
	Alpha float64 `yaml:"alpha" json:"alpha"`
}

func (r *Recipe) setDefaults() {
	r.Model.Config = bert.Defaults()
	r.Model.VocabSize = 0
	r.Vocab = Vocab{Size: 30522, Lowercase: true, PadToMultipleOf: 1}
	r.Data = Data{Kind: FilesData, HeldOut: 0.01}
	r.Verdict = Verdict{Alpha: 0.05}
}

// ModelConfig is the shape of the network over a vocabulary of so many entries. A vocab_size in the recipe must not
// be less.
func (r *Recipe) ModelConfig(vocabulary int) (bert.Config, error) {
	c := r.Model.Config
	if c.VocabSize == 0 {
		c.VocabSize = vocabulary
	}
	if c.VocabSize < vocabulary {
		return c, fmt.Errorf("recipe %s: model.vocab_size is %d, the vocabulary has %d entries", r.Name, c.VocabSize, vocabulary)
	}
	m := r.Vocab.PadToMultipleOf
	c.VocabSize = (c.VocabSize + m - 1) / m * m
	return c, c.Validate()
}

// PhaseModel is the model of a phase: config with the phase's dropout.
func (p *Phase) PhaseModel(config bert.Config) bert.Config {
	if p.HiddenDropoutProb != nil {
		config.HiddenDropoutProb = *p.HiddenDropoutProb
	}
	if p.AttentionProbsDropoutProb != nil {
		config.AttentionProbsDropoutProb = *p.AttentionProbsDropoutProb
	}
	return config
}

// Head is what the model of the phase is trained for.
func (p *Phase) Head() bert.Head { return bert.Head{Task: p.Task, Labels: p.NumLabels} }

// ForBackend returns the settings of a backend, NAME or NAME:PRECISION, in a phase. From the weakest to the
// strongest: those of NAME, of NAME in the phase, of NAME:PRECISION, of NAME:PRECISION in the phase.
func (r *Recipe) ForBackend(name, precision, phase string) Backend {
	s := Backend{Options: Options{}}
	keys := []string{name}
	if precision != "" {
		keys = append(keys, name+":"+precision)
	}
	for _, key := range keys {
		b := r.Backends[key]
		s.lay(b)
		s.lay(b.Phases[phase])
	}
	if precision != "" {
		s.Precision = precision
	}
	return s
}

// lay puts what is set in t over s.
func (s *Backend) lay(t Backend) {
	if t.Precision != "" {
		s.Precision = t.Precision
	}
	maps.Copy(s.Options, t.Options)
	if t.OptionsByStep != nil {
		s.OptionsByStep = t.OptionsByStep
	}
	if t.cuts() {
		s.MicroBatch, s.Accumulation, s.Replicas = t.MicroBatch, t.Accumulation, t.Replicas
	}
}

// OptionsAt are the options in force when so many steps of the phase are done.
func (s Backend) OptionsAt(done int) Options {
	o := maps.Clone(s.Options)
	steps, _ := changes(s.OptionsByStep) // which settle has checked
	for _, step := range steps {
		if step <= done {
			maps.Copy(o, s.OptionsByStep[strconv.Itoa(step)])
		}
	}
	return o
}

// changes are the steps at which options change, in their order.
func changes(byStep map[string]Options) ([]int, error) {
	var steps []int
	for _, key := range slices.Sorted(maps.Keys(byStep)) {
		step, err := strconv.Atoi(key)
		if err != nil || step < 0 || step > 1<<30 || strconv.Itoa(step) != key {
			return nil, fmt.Errorf("a key is %q, want a number of steps from 0 to %d", key, 1<<30)
		}
		steps = append(steps, step)
	}
	slices.Sort(steps)
	return steps, nil
}

func (s Backend) cuts() bool { return s.MicroBatch != 0 || s.Accumulation != 0 || s.Replicas != 0 }

// Phase finds a phase by name.
func (r *Recipe) Phase(name string) (*Phase, bool) {
	i := slices.IndexFunc(r.Phases, func(p Phase) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return &r.Phases[i], true
}
