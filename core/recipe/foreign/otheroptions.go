package foreign

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// The options of google-research/bert and of NVIDIA's programs, and those of single programs of Hugging Face's.

var googleOptions = map[string]taker{
	"bert_config_file": takeShape,
	"init_checkpoint":  takeWeights,
	"vocab_file":       takeVocabulary,
	"do_lower_case":    boolean(func(m *importer) *bool { return &m.lowercase }),
	"task_name":        takeTask,

	"train_file":              text(func(m *importer) *string { return &m.train }),
	"predict_file":            text(func(m *importer) *string { return &m.dev }),
	"version_2_with_negative": flag(func(m *importer) { m.dataset = "squad2" }),
	"data_dir":                takeFolder,

	"max_seq_length":            count(func(m *importer) *int { return &m.length }),
	"doc_stride":                setting(answering, "doc_stride"),
	"max_query_length":          setting(answering, "max_query_length"),
	"max_answer_length":         setting(answering, "max_answer_length"),
	"null_score_diff_threshold": setting(answering, "null_score_diff_threshold"),
	"n_best_size":               setting(answering, "n_best"),

	"learning_rate":      setting(schedule, "learning_rate"),
	"warmup_proportion":  setting(schedule, "warmup_ratio"),
	"num_train_epochs":   number(func(m *importer) *string { return &m.epochs }),
	"train_batch_size":   count(func(m *importer) *int { return &m.batch }),
	"eval_batch_size":    count(func(m *importer) *int { return &m.evalBatch }),
	"predict_batch_size": count(func(m *importer) *int { return &m.evalBatch }),
	"do_train":           boolean(func(m *importer) *bool { return &m.trains }),
	"do_predict":         predicts,
}

var googleTextOptions = map[string]taker{
	"max_predictions_per_seq": number(func(m *importer) *string { return &m.maxPredictions }),
	"num_train_steps":         number(func(m *importer) *string { return &m.maxSteps }),
	"num_warmup_steps":        setting(schedule, "warmup_steps"),
	"input_file":              prepared,
}

// googleHarmless change no number.
var googleHarmless = []string{
	"output_dir", "do_eval", "save_checkpoints_steps", "iterations_per_loop", "verbose_logging",
	"use_tpu", "tpu_name", "tpu_zone", "gcp_project", "master", "num_tpu_cores", // the batch is that of all cores
}

var nvidiaOptions = map[string]taker{
	"bert_model":      takeShape,
	"config_file":     takeShape,
	"init_checkpoint": takeWeights,
	"vocab_file":      takeVocabulary,
	"do_lower_case":   flag(func(m *importer) { m.cased = false }),
	"task_name":       takeTask,
	"data_dir":        takeFolder,

	"train_file":                googleOptions["train_file"],
	"predict_file":              googleOptions["predict_file"],
	"version_2_with_negative":   googleOptions["version_2_with_negative"],
	"max_seq_length":            googleOptions["max_seq_length"],
	"doc_stride":                googleOptions["doc_stride"],
	"max_query_length":          googleOptions["max_query_length"],
	"max_answer_length":         googleOptions["max_answer_length"],
	"null_score_diff_threshold": googleOptions["null_score_diff_threshold"],
	"n_best_size":               googleOptions["n_best_size"],

	"learning_rate":               googleOptions["learning_rate"],
	"warmup_proportion":           googleOptions["warmup_proportion"],
	"num_train_epochs":            googleOptions["num_train_epochs"],
	"train_batch_size":            googleOptions["train_batch_size"],
	"eval_batch_size":             googleOptions["eval_batch_size"],
	"predict_batch_size":          googleOptions["predict_batch_size"],
	"gradient_accumulation_steps": count(func(m *importer) *int { return &m.accumulation }),
	"max_steps":                   stopsEarly,
	"seed":                        number(func(m *importer) *string { return &m.seed }),
	"do_train":                    googleOptions["do_train"],
	"do_predict":                  predicts,

	"fp16":       flag(func(m *importer) { m.gpuPrecision = "fp16" }),
	"amp":        flag(func(m *importer) { m.gpuPrecision = "fp16" }),
	"loss_scale": takeLossScale,
}

var nvidiaTextOptions = map[string]taker{
	"max_predictions_per_seq": googleTextOptions["max_predictions_per_seq"],
	"max_steps":               number(func(m *importer) *string { return &m.maxSteps }),
	"input_dir":               prepared,
	"init_loss_scale":         setting(func(m *importer) *settings { return &m.gpuOptions }, "init_scale"),
	"phase2":                  flag(func(m *importer) { m.phase = "phase2" }),
}

// nvidiaHarmless change no number: files, logs, and how the work is done.
var nvidiaHarmless = []string{
	"output_dir", "do_eval", "eval_script", "json_summary", "log_freq", "verbose_logging", "disable_progress_bar",
	"skip_checkpoint", "skip_cache", "cache_dir", "num_steps_per_checkpoint", "num_workers", "local_rank", "use_env", "profile",
	"profile_start", "server_ip", "server_port", "checkpoint_activations", "allreduce_post_accumulation", "no_dense_sequence_output",
	"disable_jit_fusions", "cuda_graphs", "resume_from_checkpoint", "resume_step", "phase1_end_step",
}

// entityOptions are those of run_ner.py and its twin.
var entityOptions = map[string]taker{
	"dataset_name": takeEntities,
	"task_name": func(m *importer, o Option) error {
		if o.Value != "ner" {
			return fmt.Errorf("--task_name is %q: there is no such task, want ner", o.Value)
		}
		return nil
	},
	"return_entity_level_metrics": flag(func(*importer) {}), // they always are
}

// textOptions are those of run_mlm.py, its twin, and optimum-graphcore's run_pretraining.py.
var textOptions = map[string]taker{
	"dataset_name":                prepared,
	"mlm_probability":             setting(masking, "masked_lm_prob"),
	"validation_split_percentage": takeHeldOut,
	"is_already_preprocessed":     flag(func(*importer) {}),
	"groupbert_schedule":          func(*importer, Option) error { return notBERT("GroupBERT") },
}

// legacyOptions are those of examples/legacy/question-answering/run_squad.py.
var legacyOptions = map[string]taker{
	"predict_file":     text(func(m *importer) *string { return &m.dev }),
	"do_lower_case":    flag(func(*importer) {}),
	"max_query_length": setting(answering, "max_query_length"),
}

func masking(m *importer) *settings { return &m.masking }

// takeShape takes the file with the model's shape, whose folder has the model's name, or the name itself.
func takeShape(m *importer, o Option) error {
	name := o.Value
	if strings.HasSuffix(name, ".json") {
		m.config = name
		if base := path.Base(path.Dir(name)); base != "." && base != "/" && base != "bert_configs" {
			name = base
		} else {
			name = "bert-" + strings.TrimSuffix(path.Base(name), ".json") + "-uncased" // bert_configs/large.json
		}
	}
	if m.shape == "" || o.Name == "bert_model" {
		m.shape = name
	}
	return nil
}

// takeWeights notes a checkpoint, which is to be given by its folder.
func takeWeights(m *importer, o Option) error {
	m.model = o.Value
	return nil
}

func takeVocabulary(m *importer, o Option) error {
	m.vocabulary = o.Value
	return nil
}

// takeFolder takes a folder with the files of a task of GLUE.
func takeFolder(m *importer, o Option) error {
	m.folder = o.Value
	return nil
}

// prepared refuses prepared data and names of data sets, for which text stands here.
func prepared(m *importer, o Option) error {
	m.refuse("--"+o.Name+" "+o.Value, "its text is given by --data text=FILE")
	return nil
}

// predicts is do_predict: of SQuAD's programs it is the evaluation, of others a prediction.
func predicts(m *importer, o Option) error {
	if o.on() && m.dataset != "squad" && m.dataset != "squad2" {
		m.refuse("--do_predict", reasons["do_predict"])
	}
	return nil
}

// stopsEarly is NVIDIA's max_steps in fine-tuning, which cuts training and leaves the schedule. Below 0 it has no
// effect.
func stopsEarly(m *importer, o Option) error {
	if !strings.HasPrefix(o.Value, "-") && o.Value != "0" {
		m.refuse("--max_steps "+o.Value, "the program stops there in the middle of the schedule of all epochs, for benchmarks; "+
			"a recipe's schedule ends with its steps")
	}
	return nil
}

func takeLossScale(m *importer, o Option) error {
	if strings.Trim(o.Value, "0.") != "" {
		m.gpuOptions.set("loss_scale", o.Value)
		m.gpuOptions.remove("init_scale")
		m.gpuOptions.remove("growth_interval")
	}
	return nil
}

// takeEntities takes a data set of named entities, in the forms that the task ner reads.
func takeEntities(m *importer, o Option) error {
	if name := path.Base(o.Value); name != "conll2003" && name != "wnut_17" {
		m.refuse("--dataset_name "+o.Value, "give its files by --data ner.train=FILE and ner.dev=FILE, in CoNLL's form or as JSON lines")
	}
	return nil
}

func takeHeldOut(m *importer, o Option) error {
	percent, err := strconv.ParseFloat(o.Value, 64)
	if err != nil || percent <= 0 || percent >= 100 {
		return o.wrong("a percentage between 0 and 100")
	}
	m.heldOut = strconv.FormatFloat(percent/100, 'g', -1, 64)
	return nil
}
