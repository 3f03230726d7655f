package foreign

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/dataset/tasks"
)

// option takes one option: it goes into the recipe, is known to change nothing, or is refused with the reason.
func (m *importer) option(o Option) error {
	p := m.command.program
	if name := unset.FindString(o.Value); name != "" {
		m.refuse("--"+o.Name+" "+o.Value, "the variable "+name+" is not set in the text")
	}
	take, ok := p.options[o.Name]
	if !ok {
		take, ok = p.family.options[o.Name]
	}
	if ok {
		return take(m, o)
	}
	if slices.Contains(p.family.harmless, o.Name) {
		m.harmless = append(m.harmless, "--"+o.Name)
		return nil
	}
	why, ok := reasons[o.Name]
	if !ok {
		why = "there is nothing like it"
	}
	m.refuse(strings.TrimSpace("--"+o.Name+" "+o.Value), why)
	return nil
}

// taker puts an option into the recipe.
type taker func(m *importer, o Option) error

// options are those that a recipe honours, by name.
var options = map[string]taker{
	"model_name_or_path":      text(func(m *importer) *string { return &m.model }),
	"config_name":             text(func(m *importer) *string { return &m.shape }),
	"config_overrides":        takeConfigOverrides,
	"model_type":              takeModelType,
	"tokenizer_name":          text(func(m *importer) *string { return &m.tokenizer }),
	"dataset_name":            takeDataset,
	"version_2_with_negative": flag(func(m *importer) { m.dataset = "squad2" }),
	"task_name":               takeTask,
	"train_file":              text(func(m *importer) *string { return &m.train }),
	"validation_file":         text(func(m *importer) *string { return &m.dev }),
	"max_eval_samples":        number(func(m *importer) *string { return &m.sequences }),
	"max_val_samples":         number(func(m *importer) *string { return &m.sequences }),

	"max_seq_length":            count(func(m *importer) *int { return &m.length }),
	"max_length":                count(func(m *importer) *int { return &m.length }), // of programs without the Trainer
	"doc_stride":                setting(answering, "doc_stride"),
	"max_answer_length":         setting(answering, "max_answer_length"),
	"null_score_diff_threshold": setting(answering, "null_score_diff_threshold"),
	"n_best_size":               setting(answering, "n_best"),

	"learning_rate":     setting(schedule, "learning_rate"),
	"warmup_ratio":      takeWarmup,
	"warmup_steps":      takeWarmup,
	"num_warmup_steps":  takeWarmup,
	"lr_scheduler_type": takeSchedule,

	"optim":                   takeOptimizer,
	"adam_beta1":              setting(optimizer, "beta1"),
	"adam_beta2":              setting(optimizer, "beta2"),
	"adam_epsilon":            setting(optimizer, "eps"),
	"weight_decay":            setting(optimizer, "weight_decay"),
	"max_grad_norm":           setting(optimizer, "max_grad_norm"),
	"lamb":                    flag(func(m *importer) { m.optimizerName = "lamb" }),
	"lamb_no_bias_correction": flag(takeUncorrectedLAMB),

	"num_train_epochs":            number(func(m *importer) *string { return &m.epochs }),
	"max_steps":                   takeSteps,
	"max_train_steps":             takeSteps,
	"per_device_train_batch_size": count(func(m *importer) *int { return &m.batch }),
	"per_gpu_train_batch_size":    count(func(m *importer) *int { return &m.batch }),
	"per_device_eval_batch_size":  count(func(m *importer) *int { return &m.evalBatch }),
	"gradient_accumulation_steps": count(func(m *importer) *int { return &m.accumulation }),
	"dataloader_drop_last":        boolean(func(m *importer) *bool { return &m.dropsLast }),
	"seed":                        number(func(m *importer) *string { return &m.seed }),

	"evaluation_strategy":    takeEvaluation,
	"eval_strategy":          takeEvaluation,
	"eval_steps":             number(func(m *importer) *string { return &m.every }),
	"metric_for_best_model":  text(func(m *importer) *string { return &m.metric }),
	"load_best_model_at_end": boolean(func(m *importer) *bool { return &m.best }),

	"fp16": flag(func(m *importer) { m.gpuPrecision = "fp16" }),
	"bf16": flag(func(m *importer) { m.gpuPrecision = "bf16" }),
	"tf32": flag(func(m *importer) { m.gpuPrecision = "tf32" }),
	"fp32": flag(func(m *importer) { m.ipuPrecision = "fp32" }),

	"ipu_config_name":      onIPU(text(func(m *importer) *string { return &m.ipuConfig })),
	"ipu_config_overrides": onIPU(text(func(m *importer) *string { return &m.overrides })),
	"n_ipu":                count(func(m *importer) *int { return &m.ipus }),
	"pod_type":             onIPU(takePod),
	"loss_scaling":         onIPU(setting(ipuOptions, "loss_scale")),
	"auto_loss_scaling":    onIPU(flag(func(m *importer) { m.ipuOptions.set("loss_scale", "auto") })),
}

// answering, schedule, optimizer and ipuOptions are the settings that options go into.
func answering(m *importer) *settings  { return &m.answering }
func schedule(m *importer) *settings   { return &m.schedule }
func optimizer(m *importer) *settings  { return &m.optimizer }
func ipuOptions(m *importer) *settings { return m.ipuOptions }

// wrong is the error of an option with an invalid value.
func (o Option) wrong(want string) error {
	if name := unset.FindString(o.Value); name != "" {
		return fmt.Errorf("--%s is %q, and the variable %s is not set in the text, want %s", o.Name, o.Value, name, want)
	}
	return fmt.Errorf("--%s is %q, want %s", o.Name, o.Value, want)
}

// on reports whether a flag is set: with no value, or with a true one.
func (o Option) on() bool {
	return o.Value == "" || strings.EqualFold(o.Value, "true") || o.Value == "1"
}

// text takes any value.
func text(field func(*importer) *string) taker {
	return func(m *importer, o Option) error {
		*field(m) = o.Value
		return nil
	}
}

// number takes a number, and keeps it as it was written.
func number(field func(*importer) *string) taker {
	return func(m *importer, o Option) error {
		if _, err := strconv.ParseFloat(o.Value, 64); err != nil {
			return o.wrong("a number")
		}
		*field(m) = o.Value
		return nil
	}
}

// setting takes a number into settings.
func setting(of func(*importer) *settings, key string) taker {
	return func(m *importer, o Option) error {
		if _, err := strconv.ParseFloat(o.Value, 64); err != nil {
			return o.wrong("a number")
		}
		of(m).set(key, o.Value)
		return nil
	}
}

// count takes a whole number from 1.
func count(field func(*importer) *int) taker {
	return func(m *importer, o Option) error {
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 1 {
			return o.wrong("a whole number from 1")
		}
		*field(m) = n
		return nil
	}
}

// boolean takes a flag that can be switched off again.
func boolean(field func(*importer) *bool) taker {
	return func(m *importer, o Option) error {
		*field(m) = o.on()
		return nil
	}
}

// flag does something if the flag is set.
func flag(set func(*importer)) taker {
	return func(m *importer, o Option) error {
		if o.on() {
			set(m)
		}
		return nil
	}
}

// onIPU is an option that only a training run on IPUs has.
func onIPU(take taker) taker {
	return func(m *importer, o Option) error {
		m.onIPU = true
		return take(m, o)
	}
}

func takeDataset(m *importer, o Option) error {
	switch o.Value {
	case "squad":
		m.dataset = "squad"
	case "squad_v2":
		m.dataset = "squad2"
	default:
		if m.dataset == "" {
			return fmt.Errorf("--dataset_name is %q: recipes have no custom data sets, want --task_name with a task of GLUE", o.Value)
		}
		m.refuse("--dataset_name "+o.Value, "no such data set is known; the recipe is for "+m.dataset)
	}
	return nil
}

func takeTask(m *importer, o Option) error {
	t, err := tasks.Named(o.Value)
	if err != nil || t.Benchmark != tasks.GLUE {
		return o.wrong("a task of GLUE; there is no other task here for " + m.command.Script)
	}
	m.dataset = t.Name
	return nil
}

// takeWarmup takes the steps of the warm-up, or its share of all steps. Steps override the share.
func takeWarmup(m *importer, o Option) error {
	if v, err := strconv.ParseFloat(o.Value, 64); err == nil && v == 0 {
		return nil
	}
	if o.Name != "warmup_ratio" {
		m.schedule.remove("warmup_ratio")
		return setting(schedule, "warmup_steps")(m, o)
	}
	if m.schedule.values["warmup_steps"] != "" {
		return nil
	}
	return setting(schedule, o.Name)(m, o)
}

func takeSchedule(m *importer, o Option) error {
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
	return nil
}

func takeOptimizer(m *importer, o Option) error {
	if !strings.HasPrefix(o.Value, "adamw") {
		m.refuse("--optim "+o.Value, "the recipe's optimizer is adamw")
	}
	return nil
}

func takeUncorrectedLAMB(m *importer) {
	m.optimizerName = "lamb"
	m.optimizer.set("bias_correction", "false")
}

// takeSteps takes max_steps, which has no effect up to 0.
func takeSteps(m *importer, o Option) error {
	n, err := strconv.Atoi(o.Value)
	if err != nil {
		return o.wrong("a whole number")
	}
	if n > 0 {
		m.maxSteps = o.Value
	}
	return nil
}

func takeEvaluation(m *importer, o Option) error {
	switch o.Value {
	case "steps":
		m.evaluates = true
	case "no":
	default:
		m.refuse("--"+o.Name+" "+o.Value, "a recipe evaluates every so many steps (evaluation.every), and at the end")
	}
	return nil
}

func takePod(m *importer, o Option) error {
	n, ok := pods[o.Value]
	if !ok {
		return o.wrong("pod4, pod8, pod16, pod32 or pod64")
	}
	m.pod, m.ipus = o.Value, 4*n
	if slices.Contains(modelledPods, o.Value) {
		m.ipuOptions.set("system", "ipu-"+o.Value)
	}
	return nil
}

// harmlessOptions change no number: where files go, what is logged, how data is loaded.
var harmlessOptions = []string{
	// Files.
	"output_dir", "overwrite_output_dir", "overwrite_cache", "cache_dir", "logging_dir",
	"save_strategy", "save_steps", "save_total_limit",
	"push_to_hub", "hub_model_id", "hub_token", "use_auth_token", "token", "trust_remote_code",
	// What is logged.
	"logging_steps", "logging_strategy", "logging_first_step", "log_level", "log_level_replica",
	"report_to", "run_name", "disable_tqdm", "skip_memory_metrics",
	// How data is loaded.
	"preprocessing_num_workers", "dataloader_num_workers", "dataloader_mode", "dataloader_pin_memory",
	"use_fast_tokenizer", "pad_to_max_length", "pad_on_batch_axis", "remove_unused_columns",
	// How the machine is used.
	"full_determinism", "ddp_find_unused_parameters", "gradient_checkpointing", "local_rank",
	"compile_only", "executable_cache_dir", "device_iterations", "inference_device_iterations", "no_cuda",
	"checkpointing_steps", "with_tracking", "use_slow_tokenizer", "low_cpu_mem_usage", "ignore_mismatched_sizes",
	// Which parts of the script run.
	"do_train", "do_eval", "greater_is_better", "eval_accumulation_steps", "prediction_loss_only",
	"per_gpu_eval_batch_size", "overwrite_output",
}

// reasons say why an option that the scripts have is not honoured.
var reasons = map[string]string{
	"label_smoothing_factor": "the loss has no label smoothing",
	"group_by_length":        "sequences are dealt in a random order, and padded to the full length",
	"max_train_samples":      "all training data is used",
	"max_predict_samples":    "nothing is predicted but the evaluation's data",
	"max_predict":            "nothing is predicted but the evaluation's data",
	"do_predict":             "a recipe trains and evaluates; harness predict predicts",
	"test_file":              "a recipe trains and evaluates; harness predict predicts",
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
	"label_all_tokens":       "the label of a word is that of its first piece; the others have none",
	"line_by_line":           "sequences are filled from the text, across its lines",
	"data_seed":              "the order of the data follows from the run's seed",
}

// unset is a variable of the shell that Split could not replace.
var unset = regexp.MustCompile(`\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[^}]*\}|\([^)]*\)?|[0-9@*])`)

// takeModelType takes the kind of a model without a name.
func takeModelType(m *importer, o Option) error {
	if o.Value != "bert" {
		if err := checkBERT(o.Value); err != nil {
			return err
		}
		return notBERT(o.Value)
	}
	if m.shape == "" {
		m.shape = "bert-base-uncased" // BertConfig's defaults are its shape
	}
	return nil
}

// takeConfigOverrides takes keys of the model's config.json: KEY=VALUE,KEY=VALUE.
func takeConfigOverrides(m *importer, o Option) error {
	for part := range strings.SplitSeq(o.Value, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, err := strconv.ParseFloat(value, 64); err != nil || !slices.Contains(shapeKeys, key) {
			m.refuse("--config_overrides "+part, "there is nothing like it")
			continue
		}
		m.overrideShape.set(key, value)
	}
	return nil
}

// shapeKeys are the numbers in a model's config.json that a recipe has, too.
var shapeKeys = []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
	"hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size", "initializer_range",
	"layer_norm_eps"}
