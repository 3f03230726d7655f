package transformers

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

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

// Import makes a recipe from a command line. A non-empty ipuConfig is an ipu_config.json that replaces the one on
// the command line.
func Import(words []string, ipuConfig string) (*Imported, error) {
	c, err := Parse(words)
	if err != nil {
		return nil, err
	}
	m := newImporter(c)
	for _, o := range c.Options {
		if err := m.option(o); err != nil {
			return nil, err
		}
	}
	if ipuConfig != "" {
		m.ipuConfig, m.onIPU = ipuConfig, true
	}
	if err := m.finish(); err != nil {
		return nil, err
	}
	if !m.dropsLast {
		m.notes = append([]string{"the last, smaller batch of an epoch is left out; the script trains on it"}, m.notes...)
	}
	text := m.write()
	if _, err := recipe.Parse("imported.yaml", text); err != nil {
		return nil, fmt.Errorf("the command line gives no valid recipe: %w\n%s", err, text)
	}
	return &Imported{text, m.refused, m.notes}, nil
}

// importer collects a recipe's parts.
type importer struct {
	command  *Command
	refused  []string
	notes    []string
	harmless []string

	model, modelFolder   string
	dataset              string
	train, dev           string
	length               int
	answering            settings
	schedule             settings
	optimizer            settings
	optimizerName        string
	epochs, maxSteps     string
	batch, evalBatch     int
	accumulation         int
	replicas             int
	seed                 string // empty: TrainingArguments' 42
	every                string
	evaluates            bool
	metric               string
	best                 bool
	dropsLast            bool
	sequences            string
	gpuPrecision         string
	onIPU                bool
	ipuConfig, overrides string
	ipuPrecision         string
	ipuOptions           *settings
	layersPerIPU         []string
	ipus                 int
	pod                  string
}

// newImporter sets the defaults of TrainingArguments and of the script.
func newImporter(c *Command) *importer {
	m := &importer{command: c, length: 384, dataset: "squad", epochs: "3", batch: 8, evalBatch: 8, replicas: c.Processes,
		optimizerName: "adamw",
		ipuPrecision:  "fp16.16", ipuOptions: new(settings)}
	if c.Script == "run_glue.py" {
		m.length, m.dataset = 128, ""
	}
	for k, v := range map[string]string{"kind": "linear", "learning_rate": "5e-5"} {
		m.schedule.set(k, v)
	}
	m.schedule.keys = []string{"kind", "learning_rate"}
	for _, o := range [][2]string{{"beta1", "0.9"}, {"beta2", "0.999"}, {"eps", "1e-8"}, {"weight_decay", "0"},
		{"bias_correction", "true"}, {"max_grad_norm", "1"}} {
		m.optimizer.set(o[0], o[1])
	}
	return m
}

func (m *importer) refuse(what, why string) { m.refused = append(m.refused, what+": "+why) }

// finish resolves what depends on several options.
func (m *importer) finish() error {
	if m.dataset == "" {
		return errors.New("--task_name is not given, want a task of GLUE: recipes have no custom data sets")
	}
	if m.model == "" {
		return errors.New("--model_name_or_path is not given")
	}
	if info, err := os.Stat(m.model); err == nil && info.IsDir() {
		m.modelFolder = m.model
	}
	if m.overrides != "" || m.ipuConfig != "" {
		if err := m.readConfig(); err != nil {
			return err
		}
	}
	if m.command.Processes > 1 && m.onIPU {
		m.refuse(fmt.Sprintf("%d processes", m.command.Processes), "the IPU's configuration sets the replicas")
	}
	if m.accumulation == 0 {
		m.accumulation = 1
	}
	if m.gpuPrecision != "" && m.onIPU {
		m.refuse("--"+m.gpuPrecision, "the IPU's precision is "+m.ipuPrecision)
		m.gpuPrecision = ""
	}
	if m.metric != "" {
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
	return nil
}
