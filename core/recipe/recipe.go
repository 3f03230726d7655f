// Package recipe describes a run in one file: model, data, and phases of training with their lengths, batches,
// steps, schedules and optimizers.
//
// A recipe is YAML. Load parses it strictly (the error about an unknown key has its position and the nearest known
// key), merges it with the recipe that it extends, applies overrides from the command line and checks every field.
// The result is plain data with all defaults filled in: the training loop reads nothing else, and a run stores this
// resolved form.
//
// Two runs can be compared if their recipes have the same Fingerprint. It covers everything that could change a
// number, except the settings of single backends.
package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"harness.invalid/core/bert"
	"harness.invalid/core/spelling"
)

// Recipe is one experiment.
type Recipe struct {
	// Name identifies the recipe in commands and tables: by default the file's name without .yaml.
	Name string `yaml:"name" json:"name"`
	// Doc says in a line or two what the recipe is for.
	Doc string `yaml:"doc,omitempty" json:"doc,omitempty"`
	// Source is the origin of its values: a paper, or a file of a published system.
	Source string `yaml:"source,omitempty" json:"source,omitempty"`

	Model Model `yaml:"model" json:"model"`
	Vocab Vocab `yaml:"vocab" json:"vocab"`
	Data  Data  `yaml:"data" json:"data"`
	// Start is the training of a model that all runs start from; none: they start from initial values.
	Start  *Start  `yaml:"start,omitempty" json:"start,omitempty"`
	Phases []Phase `yaml:"phases" json:"phases"`
	// Restarts is how often a run may start its plugins again after one of them died or hung. It is not part of the
	// fingerprint.
	Restarts int `yaml:"restarts" json:"restarts,omitempty"`

	// Backends are settings of single backends, by name (ipu) or by name and precision (gpu-ref:fp16). They are not
	// part of the fingerprint.
	Backends map[string]Backend `yaml:"backends,omitempty" json:"backends,omitempty"`
	// Counterpart is the full-size training that the recipe stands for. It is not part of the fingerprint.
	Counterpart *Counterpart `yaml:"counterpart,omitempty" json:"counterpart,omitempty"`
	// Verdict defines when two backends are equivalent. It is not part of the fingerprint.
	Verdict Verdict `yaml:"verdict" json:"verdict"`

	// Notes say what overrides changed beside what they name. They are not part of the recipe.
	Notes []string `yaml:"-" json:"-"`
}

// Model is the shape of the network: a published size, and any of Hugging Face's keys, which override the size's.
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
	// PadToMultipleOf rounds the model's vocab_size up, as NVIDIA does to 8 (30528). The added entries never occur.
	PadToMultipleOf int `yaml:"pad_to_multiple_of" json:"pad_to_multiple_of"`
}

// Data says where text and questions come from.
type Data struct {
	// Kind is generated (a made-up world drawn from a seed, the same everywhere), files, or prepared (files with
	// text that harness data prepare has tokenized).
	Kind string `yaml:"kind" json:"kind"`
	// Generated sets the size of the made-up world.
	Generated Generated `yaml:"generated,omitempty" json:"generated"`
	// Files are paths relative to the working folder, mostly given on the command line (--data squad.train=FILE).
	// They are not part of the fingerprint: runs store a digest of the contents.
	Files Files `yaml:"files,omitempty" json:"-"`
	// HeldOut is the share of documents withheld from training to evaluate pre-training.
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
	// Seed determines the world; the seed of a run does not change it.
	Seed int `yaml:"seed" json:"seed"`
	// People is the number of people, each with a document of facts and questions about them.
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
	// Prepared are folders from harness data prepare, one for each sequence length in the recipe.
	Prepared []string `yaml:"prepared,omitempty"`
	// Vocab is a vocabulary with one entry a line. Without one, a vocabulary is learned from the text.
	Vocab string `yaml:"vocab,omitempty"`
	// Model is a folder in Hugging Face's format with the initial parameters. Its config.json overrides the
	// recipe's model, and its vocab.txt is the default vocabulary.
	Model string `yaml:"model,omitempty"`
	// SQuAD v1.1 in its own JSON format.
	SQuAD TaskFiles `yaml:"squad,omitempty"`
	// Tasks are the files of all other tasks, by name.
	Tasks map[string]TaskFiles `yaml:"tasks,omitempty"`
}

// TaskFiles are the examples of a task in its makers' format.
type TaskFiles struct {
	// Train is the training set.
	Train []string `yaml:"train,omitempty"`
	// Dev is the evaluation set.
	Dev []string `yaml:"dev,omitempty"`
}

// Of returns the files of a task.
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

// Backend holds one backend's settings for the recipe.
type Backend struct {
	// Precision is one of the backend's number formats; empty: its default. A precision on the command line
	// (gpu-ref:fp16) overrides it.
	Precision string `yaml:"precision,omitempty" json:"precision,omitempty"`
	// Options are the backend's own.
	Options Options `yaml:"options,omitempty" json:"options,omitempty"`
	// OptionsByStep changes options in the middle of a phase, after the given number of its steps. A loss scale can
	// follow a schedule: options {loss_scale: 4096}, options_by_step {1500: {loss_scale: 256}}.
	OptionsByStep map[string]Options `yaml:"options_by_step,omitempty" json:"options_by_step,omitempty"`
	// MicroBatch divides the global batch in another way than the phase does. If it, accumulation or replicas is
	// given, none of the phase's three is used.
	MicroBatch int `yaml:"micro_batch,omitempty" json:"micro_batch,omitempty"`
	// Accumulation is the number of micro-batches that a device accumulates.
	Accumulation int `yaml:"accumulation,omitempty" json:"accumulation,omitempty"`
	// Replicas is the number of devices.
	Replicas int `yaml:"replicas,omitempty" json:"replicas,omitempty"`
	// Phases change the settings in single phases, by name.
	Phases map[string]Backend `yaml:"phases,omitempty" json:"phases,omitempty"`
}

// Options are a plugin's settings as text; the plugin declares which it knows.
type Options map[string]string

// Verdict is the rule of a comparison.
type Verdict struct {
	// Primary is the metric that decides the comparison; the others are reported beside it.
	Primary string `yaml:"primary" json:"primary"`
	// Margins are the greatest irrelevant differences, by metric. Two backends are equivalent in a metric when the
	// confidence interval of their difference lies within its margin.
	Margins map[string]float64 `yaml:"margins" json:"margins"`
	// Alpha is the probability of wrongly calling two backends equivalent or different.
	Alpha float64 `yaml:"alpha" json:"alpha"`
	// Plan says how many seeds a comparison takes.
	Plan Plan `yaml:"plan" json:"plan,omitzero"`
}

// Plan says how many seeds a comparison takes.
type Plan struct {
	// Kind is sequential (pairs are added until the primary metric is decided; Alpha holds over all looks at the data)
	// or fixed (the number of pairs is given, and they are judged once).
	Kind string `yaml:"kind,omitempty" json:"kind,omitempty"`
	// MaxSeeds is the number of seeds of a fixed plan, and the largest number of a sequential one.
	MaxSeeds int `yaml:"max_seeds" json:"max_seeds"`
}

// The kinds of plans.
const (
	SequentialPlan = "sequential"
	FixedPlan      = "fixed"
)

var planKinds = []string{SequentialPlan, FixedPlan}

// String is the plan in words.
func (p Plan) String() string {
	if p.Kind == SequentialPlan {
		return "sequential, at most " + spelling.Count(p.MaxSeeds, "seed")
	}
	return "fixed, " + spelling.Count(p.MaxSeeds, "seed")
}

func (r *Recipe) setDefaults() {
	r.Model.Config = bert.Defaults()
	r.Model.VocabSize = 0
	r.Vocab = Vocab{Size: 30522, Lowercase: true, PadToMultipleOf: 1}
	r.Data = Data{Kind: FilesData, HeldOut: 0.01}
	r.Restarts = 3
	r.Verdict = Verdict{Alpha: SequentialAlpha, Plan: Plan{MaxSeeds: DefaultMaxSeeds}}
}

// ModelConfig is the shape of the network for a vocabulary of the given size. A vocab_size in the recipe must not
// be smaller.
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

// Head is the head of the phase's model.
func (p *Phase) Head() bert.Head {
	return bert.Head{Task: p.Task, Labels: p.NumLabels, MaskPadding: p.QuestionAnswering != nil && p.QuestionAnswering.MaskPadding}
}

// ForBackend returns the settings of a backend, NAME or NAME:PRECISION, in a phase. Later ones override earlier
// ones: those of NAME, of NAME in the phase, of NAME:PRECISION, of NAME:PRECISION in the phase.
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

// lay overrides s with the fields set in t.
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

// OptionsAt returns the options in force after the given number of steps of the phase.
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

// changes lists the steps at which options change, in order.
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
