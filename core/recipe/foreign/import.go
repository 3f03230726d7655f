package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
)

// Imported is a recipe made from a command line.
type Imported struct {
	// Text is the recipe's file. A comment in it lists Refused.
	Text []byte
	// Refused are the options that the recipe does not honour, each with the reason.
	Refused []string
	// Notes are differences from the script that no option causes.
	Notes []string
}

// Settings are what Import is told beside the command line.
type Settings struct {
	// IPUConfig is an ipu_config.json that replaces the one on the command line; empty: none.
	IPUConfig string
	// MaxSteps replaces the length that the command line gives; 0: it stands.
	MaxSteps int
}

// Import makes a recipe from a command line.
func Import(words []string, s Settings) (*Imported, error) {
	commands, err := Parse(words)
	if err != nil {
		return nil, err
	}
	var all []*importer
	made := &Imported{}
	for _, c := range commands {
		m, err := importCommand(c, s)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	made.Text = write(all)
	for _, m := range all {
		for _, r := range m.refused {
			if !slices.Contains(made.Refused, r) {
				made.Refused = append(made.Refused, r)
			}
		}
		for _, n := range m.notes {
			if !slices.Contains(made.Notes, n) {
				made.Notes = append(made.Notes, n)
			}
		}
	}
	if _, err := recipe.Parse("imported.yaml", made.Text); err != nil {
		return nil, fmt.Errorf("the command line gives no valid recipe: %w\n%s", err, made.Text)
	}
	return made, nil
}

// importCommand makes the parts of one command's recipe.
func importCommand(c *Command, s Settings) (*importer, error) {
	m := newImporter(c)
	for _, o := range c.Options {
		if err := m.option(o); err != nil {
			return nil, err
		}
	}
	if s.IPUConfig != "" {
		m.ipuConfig, m.onIPU = s.IPUConfig, true
	}
	if s.MaxSteps > 0 {
		m.maxSteps = strconv.Itoa(s.MaxSteps)
	}
	return m, m.finish()
}

// importer collects a recipe's parts.
type importer struct {
	command  *Command
	refused  []string
	notes    []string
	harmless []string

	model, modelFolder   string // the model to start from
	shape, config        string // the name of its shape if another; a file with it
	overrideShape        settings
	tokenizer            string
	vocabulary           string
	activation           bert.Activation
	initializer          string
	padVocab             string
	lowercase, cased     bool // lowercase false or cased true: case is kept
	dataset              string
	train, dev, folder   string
	heldOut              string
	phase                string
	length               int
	maxPredictions       string
	gathers              bool // at most so many masked words as optimum-graphcore's collator keeps
	answering            settings
	masking              settings
	schedule             settings
	optimizer            settings
	optimizerName        string
	clipsFused           bool // NVIDIA's run_squad.py clips before FusedAdam
	epochs, maxSteps     string
	batch, evalBatch     int
	accumulation         int
	replicas             int
	dividesBatch         bool // the batch is divided by the accumulation
	alone                bool // processes share no batch
	trains               bool
	seed, defaultSeed    string
	every                string
	evaluates            bool
	metric               string
	best                 bool
	dropsLast            bool
	sequences            string
	gpuPrecision         string
	gpuOptions           settings
	onIPU                bool
	ipuConfig, overrides string
	ipuPrecision         string
	ipuOptions           *settings
	layersPerIPU         []string
	ipus                 int
	pod                  string
}

// newImporter sets the defaults of the program.
func newImporter(c *Command) *importer {
	p := c.program
	m := &importer{command: c, length: p.length, dataset: p.dataset, replicas: c.launch.processes, gpuPrecision: c.launch.precision,
		optimizerName: "adamw", lowercase: true, phase: cmp.Or(c.phase, "pretraining"),
		ipuPrecision: "fp16.16", ipuOptions: new(settings)}
	p.family.defaults(m)
	if p.defaults != nil {
		p.defaults(m)
	}
	return m
}

func (m *importer) refuse(what, why string) { m.refused = append(m.refused, what+": "+why) }

// finish resolves what depends on several options.
func (m *importer) finish() error {
	p := m.command.program
	if p.task != bert.Pretraining && m.dataset == "" {
		return errors.New("--task_name is not given, want a task of GLUE: recipes have no custom data sets")
	}
	if err := m.finishModel(); err != nil {
		return err
	}
	if err := m.finishBatch(); err != nil {
		return err
	}
	m.refused = append(m.refused, m.command.launch.unclear...)
	if p.family != &transformers && !m.trains {
		m.notes = append(m.notes, "without --do_train the program trains nothing; the recipe trains as it would with it")
	}
	if m.gpuPrecision != "" && m.onIPU {
		m.refuse("--"+m.gpuPrecision, "the IPU's precision is "+m.ipuPrecision)
		m.gpuPrecision = ""
	}
	if p.family == &nvidia && p.task != bert.Pretraining {
		m.finishNVIDIA()
	}
	if p.task == bert.Pretraining {
		return m.finishPretraining()
	}
	m.finishFiles()
	m.finishMetric()
	if !m.dropsLast {
		m.notes = append([]string{"the last, smaller batch of an epoch is left out; the script trains on it"}, m.notes...)
	}
	return nil
}

// finishBatch resolves batch, accumulation and replicas.
func (m *importer) finishBatch() error {
	l := m.command.launch
	if m.alone && l.processes > 1 {
		return fmt.Errorf("%s starts %d processes, and %s of %s does not share its batch among processes", l.by, l.processes,
			m.command.Script, m.command.program.family.name)
	}
	if m.overrides != "" || m.ipuConfig != "" {
		if err := m.readConfig(); err != nil {
			return err
		}
	}
	if m.onIPU && l.by == "poprun" {
		m.replicas = l.processes
	} else if m.onIPU && l.processes > 1 {
		m.refuse(fmt.Sprintf("%d processes", l.processes), "the IPU's configuration sets the replicas")
	}
	m.accumulation = max(1, m.accumulation)
	if m.dividesBatch {
		if m.batch%m.accumulation != 0 {
			return fmt.Errorf("--train_batch_size is %d, want a multiple of --gradient_accumulation_steps %d, which divides it", m.batch,
				m.accumulation)
		}
		m.batch /= m.accumulation
	}
	if t, err := tasks.Named(m.dataset); err == nil && t.Kind == bert.MultipleChoice {
		// The program counts questions, a recipe sequences.
		m.batch, m.evalBatch = m.batch*t.Choices, m.evalBatch*t.Choices
	}
	return nil
}

// finishNVIDIA sets what NVIDIA's fine-tuning does otherwise in mixed precision: apex's FusedAdam with its eps.
// Source: run_squad.py, run_glue.py (no clipping there), schedulers.py (LinearWarmUpScheduler counts from 1).
func (m *importer) finishNVIDIA() {
	if m.gpuPrecision == "fp16" {
		m.schedule.set("steps_ahead", "1")
		m.optimizer.set("eps", "1e-8")
		m.optimizer.remove("clip_by")
		m.optimizer.set("max_grad_norm", "0")
		if m.clipsFused {
			m.optimizer.set("max_grad_norm", "1")
			m.optimizer.set("clip_by", "global")
		}
	}
	if m.command.program.dataset == "squad" {
		m.notes = append(m.notes, "the program's schedule counts questions, not their windows: its rate ends at 0 a little earlier")
	}
}

// finishPretraining resolves masks and length.
func (m *importer) finishPretraining() error {
	if m.maxSteps == "" {
		return fmt.Errorf("%s trains for epochs, and a recipe's pre-training for steps: give --max_steps, or harness recipe import "+
			"--max-steps N", m.command.Script)
	}
	if m.maxPredictions != "" {
		return nil
	}
	share, err := strconv.ParseFloat(cmp.Or(m.masking.values["masked_lm_prob"], "0.15"), 64)
	if err != nil || share <= 0 || share > 1 {
		return fmt.Errorf("--mlm_probability is %q, want a share above 0 up to 1", m.masking.values["masked_lm_prob"])
	}
	mean := float64(m.length) * share
	most := math.Ceil(mean)
	if m.gathers {
		// optimum-graphcore, data_collator.py: two standard deviations more, in units of 16.
		most = math.Ceil((mean+2*math.Sqrt(mean*(1-share)))/16) * 16
	}
	m.maxPredictions = strconv.Itoa(int(min(most, float64(m.length))))
	return nil
}

// finishFiles names the files of a folder of GLUE.
func (m *importer) finishFiles() {
	if m.folder == "" {
		return
	}
	dev := "dev.tsv"
	switch m.dataset {
	case "mnli":
		dev = "dev_matched.tsv"
	case "mnli-mm":
		dev = "dev_mismatched.tsv"
	}
	m.train, m.dev = path.Join(m.folder, "train.tsv"), path.Join(m.folder, dev)
}

// finishMetric resolves the metric that decides which model is the best.
func (m *importer) finishMetric() {
	if m.metric == "" {
		return
	}
	name := strings.TrimPrefix(m.metric, "eval_")
	if other, ok := map[string]string{"exact": tasks.ExactMatch, "spearmanr": tasks.Spearman}[name]; ok {
		name = other
	}
	if t, err := tasks.Named(m.dataset); err != nil || !slices.Contains(t.Metrics, name) {
		m.refuse("--metric_for_best_model "+m.metric, "the data set has no such metric")
		name = ""
	}
	m.metric = name
}

// isFolder reports whether there is such a folder here.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
