package transformers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
)

// Imported is a recipe that was made of a command line.
type Imported struct {
	// Text is the recipe's file, with a comment that lists Refused.
	Text []byte
	// Refused are the options that the recipe does not honour, each with the reason.
	Refused []string
	// Notes are what differs from the script whatever the options.
	Notes []string
}

// Import makes a recipe of a command line. ipuConfig, if it is not empty, is an ipu_config.json to take in place of
// the one that the command line names.
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
		return nil, fmt.Errorf("the command line makes no recipe: %w\n%s", err, text)
	}
	return &Imported{text, m.refused, m.notes}, nil
}

// settings are keys and values in their order.
type settings struct {
	keys   []string
	values map[string]string
}

func (s *settings) set(key, value string) {
	if s.values == nil {
		s.values = make(map[string]string)
	}
	if _, ok := s.values[key]; !ok {
		s.keys = append(s.keys, key)
	}
	s.values[key] = value
}

// flow writes settings as YAML in one line.
func (s *settings) flow() string {
	var parts []string
	for _, k := range s.keys {
		parts = append(parts, k+": "+s.values[k])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// importer gathers a recipe.
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

// newImporter has the defaults of TrainingArguments and of the script.
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

// harmlessOptions change no number: where files go, what is logged, how data is loaded.
var harmlessOptions = []string{
	"output_dir", "overwrite_output_dir", "overwrite_cache", "full_determinism", "do_train", "do_eval", "cache_dir", "logging_dir",
	"logging_steps",
	"logging_strategy", "logging_first_step", "save_strategy", "save_steps", "save_total_limit", "preprocessing_num_workers",
	"dataloader_num_workers", "dataloader_mode",
	"dataloader_pin_memory", "report_to", "run_name", "disable_tqdm", "push_to_hub", "hub_model_id", "hub_token", "use_auth_token",
	"token", "log_level",
	"log_level_replica", "use_fast_tokenizer", "pad_to_max_length", "trust_remote_code", "ddp_find_unused_parameters",
	"gradient_checkpointing",
	"compile_only", "executable_cache_dir", "device_iterations", "inference_device_iterations", "pad_on_batch_axis",
	"greater_is_better", "local_rank",
	"eval_accumulation_steps", "prediction_loss_only", "skip_memory_metrics", "remove_unused_columns", "per_gpu_eval_batch_size",
}

// option takes one option.
func (m *importer) option(o Option) error {
	fail := func(want string) error { return fmt.Errorf("--%s is %q, want %s", o.Name, o.Value, want) }
	whole := func(into *int) error {
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 1 {
			return fail("a whole number from 1")
		}
		*into = n
		return nil
	}
	number := func(set func(string)) error {
		if _, err := strconv.ParseFloat(o.Value, 64); err != nil {
			return fail("a number")
		}
		set(o.Value)
		return nil
	}
	on := o.Value == "" || strings.EqualFold(o.Value, "true") || o.Value == "1"
	into := func(s *settings, key string) error { return number(func(v string) { s.set(key, v) }) }
	switch o.Name {
	case "model_name_or_path":
		m.model = o.Value
	case "dataset_name":
		switch o.Value {
		case "squad":
			m.dataset = "squad"
		case "squad_v2":
			m.dataset = "squad2"
		default:
			m.refuse("--dataset_name "+o.Value, "no such data set is known; the recipe is for "+m.dataset)
		}
	case "version_2_with_negative":
		if on {
			m.dataset = "squad2"
		}
	case "task_name":
		t, err := tasks.Named(o.Value)
		if err != nil || t.Benchmark != tasks.GLUE {
			return fail("a task of GLUE")
		}
		m.dataset = t.Name
	case "train_file":
		m.train = o.Value
	case "validation_file":
		m.dev = o.Value
	case "max_seq_length":
		return whole(&m.length)
	case "doc_stride", "max_answer_length", "null_score_diff_threshold":
		return into(&m.answering, o.Name)
	case "n_best_size":
		return into(&m.answering, "n_best")
	case "learning_rate":
		return into(&m.schedule, "learning_rate")
	case "warmup_ratio", "warmup_steps":
		if v, err := strconv.ParseFloat(o.Value, 64); err == nil && v == 0 {
			return nil
		}
		if o.Name == "warmup_steps" { // which goes before the ratio
			delete(m.schedule.values, "warmup_ratio")
			m.schedule.keys = slices.DeleteFunc(m.schedule.keys, func(k string) bool { return k == "warmup_ratio" })
		} else if m.schedule.values["warmup_steps"] != "" {
			return nil
		}
		return into(&m.schedule, o.Name)
	case "lr_scheduler_type":
		switch o.Value {
		case "linear", "constant":
			m.schedule.set("kind", o.Value)
		case "constant_with_warmup":
			m.schedule.set("kind", "constant")
		case "polynomial":
			m.schedule.set("kind", "polynomial")
			m.schedule.set("end_learning_rate", "1e-7") // of get_polynomial_decay_schedule_with_warmup, with power 1
		default:
			m.refuse("--lr_scheduler_type "+o.Value, "there is no such schedule; the recipe's is linear")
		}
	case "adam_beta1":
		return into(&m.optimizer, "beta1")
	case "adam_beta2":
		return into(&m.optimizer, "beta2")
	case "adam_epsilon":
		return into(&m.optimizer, "eps")
	case "weight_decay", "max_grad_norm":
		return into(&m.optimizer, o.Name)
	case "optim":
		if !strings.HasPrefix(o.Value, "adamw") {
			m.refuse("--optim "+o.Value, "the recipe's optimizer is adamw")
		}
	case "lamb", "lamb_no_bias_correction":
		if on {
			m.optimizerName = "lamb"
			if o.Name == "lamb_no_bias_correction" {
				m.optimizer.set("bias_correction", "false")
			}
		}
	case "num_train_epochs":
		return number(func(v string) { m.epochs = v })
	case "max_steps":
		if n, err := strconv.Atoi(o.Value); err != nil {
			return fail("a whole number")
		} else if n > 0 {
			m.maxSteps = o.Value
		}
	case "per_device_train_batch_size", "per_gpu_train_batch_size":
		return whole(&m.batch)
	case "per_device_eval_batch_size":
		return whole(&m.evalBatch)
	case "gradient_accumulation_steps":
		return whole(&m.accumulation)
	case "max_eval_samples", "max_val_samples":
		return number(func(v string) { m.sequences = v })
	case "seed":
		return number(func(v string) { m.seed = v })
	case "evaluation_strategy", "eval_strategy":
		switch o.Value {
		case "steps":
			m.evaluates = true
		case "no":
		default:
			m.refuse("--"+o.Name+" "+o.Value, "a recipe evaluates every so many steps (evaluation.every), and at the end")
		}
	case "eval_steps":
		return number(func(v string) { m.every = v })
	case "metric_for_best_model":
		m.metric = o.Value
	case "load_best_model_at_end":
		m.best = on
	case "fp16", "bf16", "tf32":
		if on {
			m.gpuPrecision = o.Name
		}
	case "fp32":
		if on {
			m.ipuPrecision = "fp32"
		}
	case "ipu_config_name":
		m.ipuConfig, m.onIPU = o.Value, true
	case "ipu_config_overrides":
		m.overrides, m.onIPU = o.Value, true
	case "n_ipu":
		return whole(&m.ipus)
	case "pod_type":
		n, ok := pods[o.Value]
		if !ok {
			return fail("pod4, pod8, pod16, pod32 or pod64")
		}
		m.pod, m.ipus, m.onIPU = o.Value, 4*n, true
	case "loss_scaling":
		m.onIPU = true
		return into(m.ipuOptions, "loss_scale")
	case "auto_loss_scaling":
		if m.onIPU = true; on {
			m.ipuOptions.set("loss_scale", "auto")
		}
	case "dataloader_drop_last":
		m.dropsLast = on
	default:
		if slices.Contains(harmlessOptions, o.Name) {
			m.harmless = append(m.harmless, "--"+o.Name)
			return nil
		}
		why, ok := reasons[o.Name]
		if !ok {
			why = "there is nothing like it"
		}
		m.refuse(strings.TrimSpace("--"+o.Name+" "+o.Value), why)
	}
	return nil
}

// reasons say why an option is not honoured, where there is more to say than that it is not known.
var reasons = map[string]string{
	"label_smoothing_factor": "the loss has no label smoothing",
	"group_by_length":        "sequences are dealt in a random order, and padded to the full length",
	"max_train_samples":      "all training data is used",
	"max_predict_samples":    "nothing is predicted but the evaluation's data",
	"max_predict":            "nothing is predicted but the evaluation's data",
	"do_predict":             "a recipe trains and evaluates; harness predict predicts",
	"test_file":              "a recipe trains and evaluates; harness predict predicts",
	"config_name":            "the model's shape is in the recipe, under model",
	"tokenizer_name":         "the vocabulary comes by --data vocab=FILE",
	"model_revision":         "a model's folder has one state",
	"dataset_config_name":    "the files come by --data",
	"deepspeed":              "the backend spreads the work",
	"sharded_ddp":            "the backend spreads the work",
	"fsdp":                   "the backend spreads the work",
	"adafactor":              "the recipe's optimizer is adamw",
	"resume_from_checkpoint": "harness run --resume goes on with a run",
	"fp16_full_eval":         "evaluation has the precision of training",
	"bf16_full_eval":         "evaluation has the precision of training",
	"fp16_opt_level":         "gpu-ref:fp16 is autocast with FP32 master weights",
	"fp16_backend":           "gpu-ref:fp16 is autocast with FP32 master weights",
	"half_precision_backend": "gpu-ref:fp16 is autocast with FP32 master weights",
	"data_seed":              "the order of the data follows from the run's seed",
}

// models are what names of the hub stand for: the published size, the vocabulary, and whether case is folded.
var models = []struct {
	prefix    string
	size      string
	vocab     int
	lowercase bool
}{
	{"bert-base-uncased", "base", 30522, true}, {"bert-large-uncased", "large", 30522, true}, {"bert-base-cased", "base", 28996, false},
	{"bert-large-cased", "large", 28996, false}, {"bert-base-chinese", "base", 21128, true},
	{"bert_uncased_L-2_H-128_A-2", "tiny", 30522, true}, {"bert_uncased_L-4_H-256_A-4", "mini", 30522, true},
	{"bert_uncased_L-4_H-512_A-8", "small", 30522, true}, {"bert_uncased_L-8_H-512_A-8", "medium", 30522,
		true}, {"bert_uncased_L-12_H-768_A-12", "base", 30522, true},
}

// finish settles what several options decide together.
func (m *importer) finish() error {
	if m.dataset == "" {
		return errors.New("--task_name is not given, want a task of GLUE: a recipe has no data set of one's own columns")
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
		m.refuse(fmt.Sprintf("%d processes", m.command.Processes), "replicas of the IPU are those of its configuration")
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

// readConfig reads the IPU's configuration: a file, a folder with an ipu_config.json, or a name of the hub that is
// known.
func (m *importer) readConfig() error {
	c := configured{}
	if m.ipuConfig != "" {
		name := m.ipuConfig
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			name = filepath.Join(name, "ipu_config.json")
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && published[m.ipuConfig] != "" {
			text, err = []byte(published[m.ipuConfig]), nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			m.refuse("--ipu_config_name "+m.ipuConfig, "it is no file here, and no configuration that is known: give it by --ipu-config FILE")
			text, err = []byte("{}"), nil
		}
		if err != nil {
			return err
		}
		if c, err = parseConfig(name, text); err != nil {
			return err
		}
	}
	if m.overrides != "" {
		if err := c.override(m.overrides); err != nil {
			return err
		}
	}
	if err := c.ofPod(m.pod); err != nil {
		return err
	}
	if err := m.ipu(c); err != nil {
		return err
	}
	if perReplica := max(1, len(m.layersPerIPU)); m.ipus > 0 && m.ipus%perReplica == 0 {
		m.replicas = m.ipus / perReplica // n_ipu goes before the configuration
	}
	return nil
}
