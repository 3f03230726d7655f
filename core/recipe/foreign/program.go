package foreign

import "harness.invalid/core/bert"

// family is what the programs of one project have in common.
type family struct {
	name string
	// defaults are the values that hold without options.
	defaults func(*importer)
	options  map[string]taker
	harmless []string
}

// program is a row of the table of programs.
type program struct {
	script string
	family *family
	// tells are options of which one is always given, where programs of several projects have the same name.
	tells []string
	task  bert.Task
	// dataset that the program is for; empty: an option names it.
	dataset string
	// length of a sequence by default, in tokens.
	length int
	// defaults that differ from the family's, and options over its own.
	defaults func(*importer)
	options  map[string]taker
}

// programs are those that are taken. Their defaults are those of the file that has the program's name.
var programs = []program{
	// Sources: huggingface/transformers, examples/pytorch/question-answering, text-classification, token-classification,
	// multiple-choice and language-modeling. run_ner.py, run_swag.py and run_mlm.py cut at what the model can take, 512.
	{script: "run_qa.py", family: &transformers, task: bert.QuestionAnswering, dataset: "squad", length: 384},
	{script: "run_glue.py", family: &transformers, tells: []string{"model_name_or_path"}, task: bert.Classification, length: 128},
	{script: "run_ner.py", family: &transformers, task: bert.TokenClassification, dataset: "ner", length: 512, options: entityOptions},
	{script: "run_mlm.py", family: &transformers, task: bert.Pretraining, length: 512, defaults: maskedWords, options: textOptions},

	{script: "run_qa_no_trainer.py", family: &transformers, task: bert.QuestionAnswering, dataset: "squad", length: 384,
		defaults: withoutTrainer},
	{script: "run_glue_no_trainer.py", family: &transformers, task: bert.Classification, length: 128, defaults: withoutTrainer},
	{script: "run_ner_no_trainer.py", family: &transformers, task: bert.TokenClassification, dataset: "ner", length: 128,
		defaults: withoutTrainer, options: entityOptions},
	{script: "run_mlm_no_trainer.py", family: &transformers, task: bert.Pretraining, length: 512,
		defaults: func(m *importer) { withoutTrainer(m); maskedWords(m) }, options: textOptions},
	{script: "run_swag.py", family: &transformers, task: bert.MultipleChoice, dataset: "swag", length: 512},
	{script: "run_swag_no_trainer.py", family: &transformers, task: bert.MultipleChoice, dataset: "swag", length: 128,
		defaults: withoutTrainer},
	// The program before run_qa.py: huggingface/transformers, examples/legacy/question-answering/run_squad.py.
	{script: "run_squad.py", family: &transformers, tells: []string{"model_name_or_path", "model_type"}, task: bert.QuestionAnswering,
		dataset: "squad", length: 384, options: legacyOptions},

	// Source: huggingface/optimum-graphcore, examples/language-modeling.
	{script: "run_pretraining.py", family: &transformers, tells: []string{"ipu_config_name", "tokenizer_name"},
		task: bert.Pretraining, length: 512, defaults: optimumPretraining, options: textOptions},

	// Source: google-research/bert.
	{script: "run_squad.py", family: &google, tells: []string{"bert_config_file"}, task: bert.QuestionAnswering,
		dataset: "squad", length: 384},
	{script: "run_classifier.py", family: &google, tells: []string{"bert_config_file"}, task: bert.Classification, length: 128},
	{script: "run_pretraining.py", family: &google, tells: []string{"bert_config_file"}, task: bert.Pretraining, length: 128,
		defaults: googlePretraining, options: googleTextOptions},

	// Source: NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT.
	{script: "run_squad.py", family: &nvidia, tells: []string{"config_file", "bert_model"}, task: bert.QuestionAnswering,
		dataset: "squad", length: 384, defaults: func(m *importer) { m.clipsFused = true }},
	{script: "run_glue.py", family: &nvidia, tells: []string{"config_file", "bert_model"}, task: bert.Classification, length: 128,
		defaults: func(m *importer) { m.defaultSeed = "1" }},
	{script: "run_pretraining.py", family: &nvidia, tells: []string{"config_file"}, task: bert.Pretraining, length: 512,
		defaults: nvidiaPretraining, options: nvidiaTextOptions},
}

// leftOut are programs of the same projects that train no BERT, or on no task that is known here.
var leftOut = map[string]string{
	"run_xnli.py":                            "is for XNLI, and there is no task xnli",
	"run_qa_beam_search.py":                  "is for XLNet: only BERT is trained here",
	"run_qa_beam_search_no_trainer.py":       "is for XLNet: only BERT is trained here",
	"run_seq2seq_qa.py":                      "is for T5 and BART: only BERT is trained here",
	"run_clm.py":                             "is for GPT: only BERT is trained here",
	"run_clm_no_trainer.py":                  "is for GPT: only BERT is trained here",
	"run_plm.py":                             "is for XLNet: only BERT is trained here",
	"run_vqa.py":                             "is for LXMERT: only BERT is trained here",
	"run_classifier_with_tfhub.py":           "takes its model from TensorFlow Hub: give the line of run_classifier.py",
	"run_wav2vec2_pretraining_no_trainer.py": "is for wav2vec 2.0: only BERT is trained here",
}

// foreignOptions are options that only other programs of a taken name have.
var foreignOptions = []struct{ script, option, of string }{
	{"", "horovod", "NVIDIA's TensorFlow BERT, which is not read: give the line of its PyTorch one, or of google-research/bert"},
	{"run_pretraining.py", "config", "Graphcore's examples, whose configurations are recipes here: harness recipe list graphcore"},
	{"run_squad.py", "config", "Graphcore's examples, whose configurations are recipes here: harness recipe list graphcore"},
	{"run_pretraining.py", "from_pretrained_params", "NVIDIA's Paddle BERT, which is not read: give the line of its PyTorch one"},
	{"run_pretraining.py", "feature_extractor_name", "a program for speech: only BERT is trained here"},
}

// transformers is Hugging Face's. Source: training_args.py; configuration_bert.py (GELU with erf, normal initial
// values, eps 1e-12); modeling_bert.py.
var transformers = family{name: "huggingface/transformers", options: options, harmless: harmlessOptions,
	defaults: func(m *importer) {
		m.schedule.set("kind", "linear")
		m.schedule.set("learning_rate", "5e-5")
		for _, o := range [][2]string{{"beta1", "0.9"}, {"beta2", "0.999"}, {"eps", "1e-8"}, {"weight_decay", "0"},
			{"bias_correction", "true"}, {"max_grad_norm", "1"}} {
			m.optimizer.set(o[0], o[1])
		}
		m.epochs, m.batch, m.evalBatch, m.defaultSeed = "3", 8, 8, "42"
		m.activation, m.initializer = bert.GELU, "normal"
	}}

// withoutTrainer are the programs with a loop of their own: AdamW without clipping. Source: run_*_no_trainer.py.
func withoutTrainer(m *importer) { m.optimizer.set("max_grad_norm", "0") }

// maskedWords is run_mlm.py: masks are drawn anew each time, and there are no next sentences.
func maskedWords(m *importer) {
	m.masking.set("kind", "dynamic")
	m.heldOut = "0.05" // validation_split_percentage
	m.refuse(m.command.Script, "it trains on masked words alone, in lines filled from the text; the recipe's pre-training "+
		"has pairs of segments, and the loss of the next sentence as well")
	m.notes = append(m.notes, "a fixed share of each sequence is masked; the program draws for each token")
}

// optimumPretraining is optimum-graphcore's: BertForPreTraining, or a data set with next sentences.
func optimumPretraining(m *importer) {
	m.masking.set("kind", "dynamic")
	m.heldOut = "0.05"
	m.gathers = true
	m.notes = append(m.notes, "a fixed share of each sequence is masked; the program draws for each token")
}

// google is google-research/bert. train_batch_size is the global batch, also on a TPU of several cores. Sources:
// run_*.py; optimization.py (create_optimizer, AdamWeightDecayOptimizer: no bias correction, the whole gradient is
// clipped to 1); modeling.py (gelu with tanh).
var google = family{name: "google-research/bert", options: googleOptions, harmless: googleHarmless,
	defaults: func(m *importer) {
		m.schedule.set("kind", "google")
		m.schedule.set("learning_rate", "5e-5")
		m.schedule.set("warmup_ratio", "0.1")
		for _, o := range [][2]string{{"beta1", "0.9"}, {"beta2", "0.999"}, {"eps", "1e-6"}, {"weight_decay", "0.01"},
			{"bias_correction", "false"}, {"max_grad_norm", "1"}} {
			m.optimizer.set(o[0], o[1])
		}
		m.epochs, m.batch, m.evalBatch = "3", 32, 8
		m.dropsLast, m.alone = true, true // drop_remainder=is_training
		m.activation, m.initializer = bert.GELUNew, "truncated_normal"
	}}

// googlePretraining is run_pretraining.py.
func googlePretraining(m *importer) {
	m.schedule.remove("warmup_ratio")
	m.schedule.set("warmup_steps", "10000")
	m.maxSteps, m.maxPredictions = "100000", "20"
	m.masking.set("kind", "static")
}

// nvidia is NVIDIA's PyTorch BERT. train_batch_size is that of a GPU, before gradient_accumulation_steps divides it.
// Sources: run_*.py; optimization.py (BertAdam, for FP32); schedulers.py; modeling.py (gelu with tanh).
var nvidia = family{name: "NVIDIA/DeepLearningExamples", options: nvidiaOptions, harmless: nvidiaHarmless,
	defaults: func(m *importer) {
		m.schedule.set("kind", "linear")
		m.schedule.set("learning_rate", "5e-5")
		m.schedule.set("warmup_ratio", "0.1")
		for _, o := range [][2]string{{"beta1", "0.9"}, {"beta2", "0.999"}, {"eps", "1e-6"}, {"weight_decay", "0.01"},
			{"bias_correction", "false"}, {"max_grad_norm", "1"}, {"clip_by", "tensor"}} {
			m.optimizer.set(o[0], o[1])
		}
		m.epochs, m.batch, m.evalBatch, m.defaultSeed = "3", 32, 8, "42"
		m.dividesBatch, m.cased = true, true // do_lower_case is off by default
		m.activation, m.initializer, m.padVocab = bert.GELUNew, "nvidia", "8"
		m.gpuOptions.set("loss_scale", "dynamic")
		m.gpuOptions.set("init_scale", "65536") // apex, amp/scaler.py
		m.gpuOptions.set("growth_interval", "2000")
	}}

// nvidiaPretraining is run_pretraining.py: LAMB, whose rate falls with a square root.
func nvidiaPretraining(m *importer) {
	m.schedule.set("kind", "nvidia")
	m.schedule.set("power", "0.5")
	m.schedule.set("warmup_ratio", "0.01")
	m.optimizer, m.optimizerName = settings{}, "lamb"
	for _, o := range [][2]string{{"beta1", "0.9"}, {"beta2", "0.999"}, {"eps", "1e-6"}, {"weight_decay", "0.01"},
		{"bias_correction", "true"}, {"grad_averaging", "true"}, {"max_grad_norm", "1"}, {"use_nvlamb", "false"},
		{"update_format", "fp32"}} {
		m.optimizer.set(o[0], o[1])
	}
	m.maxSteps, m.maxPredictions = "1000", "80"
	m.masking.set("kind", "static")
	m.cased = false // the text is prepared by other programs
	m.gpuOptions.set("init_scale", "1048576")
}
