package foreign

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

func imported(t *testing.T, line string) (*recipe.Recipe, *Imported) {
	t.Helper()
	words, err := Split(line)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Import(words, Settings{})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	r, err := recipe.Parse("imported.yaml", made.Text)
	if err != nil {
		t.Fatal(err)
	}
	return r, made
}

// squadReadme is the example of transformers, examples/pytorch/question-answering/README.md.
const squadReadme = `python run_qa.py \
  --model_name_or_path bert-base-uncased \
  --dataset_name squad \
  --do_train \
  --do_eval \
  --per_device_train_batch_size 12 \
  --learning_rate 3e-5 \
  --num_train_epochs 2 \
  --max_seq_length 384 \
  --doc_stride 128 \
  --output_dir /tmp/debug_squad/`

func TestQuestionAnswering(t *testing.T) {
	r, made := imported(t, squadReadme)
	if len(made.Refused) > 0 {
		t.Errorf("not honoured: %q, want nothing", made.Refused)
	}
	p := r.Phases[0]
	if p.Task != bert.QuestionAnswering || p.Length != 384 || p.GlobalBatch != 12 || p.Epochs != 2 || p.QuestionAnswering.DocStride != 128 {
		t.Errorf("phase is %+v", p)
	}
	if p.Schedule.Kind != recipe.Linear || p.Schedule.LearningRate != 3e-5 || p.Schedule.WarmupSteps != 0 {
		t.Errorf("schedule is %+v", p.Schedule)
	}
	// TrainingArguments' defaults: AdamW without decay, eps 1e-8, clipped at 1.
	want := recipe.Options{
		"beta1": "0.9", "beta2": "0.999", "eps": "1e-8", "weight_decay": "0", "bias_correction": "true", "max_grad_norm": "1",
	}
	if diff := cmp.Diff(want, p.Optimizer.Options); diff != "" {
		t.Error(diff)
	}
	if r.Model.HiddenSize != 768 || r.Model.HiddenAct != bert.GELU || r.Model.VocabSize != 30522 || !r.Vocab.Lowercase {
		t.Errorf("model is %+v", r.Model)
	}
	if len(r.Backends) != 0 {
		t.Errorf("backends are %+v, want none", r.Backends)
	}
}

// TestModelCard: the command line on the model card of Graphcore/bert-base-uncased-squad gives the built-in recipe.
func TestModelCard(t *testing.T) {
	r, made := imported(t, `python examples/question-answering/run_qa.py --model_name_or_path Graphcore/bert-base-uncased
		--ipu_config_name Graphcore/bert-base-ipu --dataset_name squad --do_train --do_eval --num_train_epochs 3
		--per_device_train_batch_size 2 --per_device_eval_batch_size 2 --gradient_accumulation_steps 16 --pod_type pod16
		--learning_rate 9e-5 --max_seq_length 384 --doc_stride 128 --seed 42 --lr_scheduler_type linear --loss_scaling 64
		--weight_decay 0.01 --warmup_ratio 0.2 --logging_steps 1 --save_steps 50 --dataloader_num_workers 64
		--ipu_config_overrides "embedding_serialization_factor=2" --output_dir squad_v2_bert_base`)
	if len(made.Refused) > 0 {
		t.Errorf("not honoured: %q, want nothing", made.Refused)
	}
	builtin, err := recipe.Load("optimum/bert-base-uncased-squad")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*recipe.Recipe{r, builtin} {
		r.Name, r.Doc, r.Source, r.Verdict = "", "", "", recipe.Verdict{}
	}
	if diff := cmp.Diff(builtin, r, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the built-in recipe (-) is not the command line (+):\n%s", diff)
	}
}

func TestGLUE(t *testing.T) {
	r, made := imported(t, `torchrun --nproc_per_node=8 examples/run_glue.py --model_name_or_path bert-large-cased --task_name STS-B
		--fp16 --max_steps=1000 --warmup_steps 100 --warmup_ratio 0.3 --weight_decay=0.01 --gradient_accumulation_steps 2
		--evaluation_strategy steps --eval_steps 50 --per_device_eval_batch_size 64
		--metric_for_best_model eval_spearmanr --load_best_model_at_end True`)
	if len(made.Refused) > 0 {
		t.Errorf("not honoured: %q, want nothing", made.Refused)
	}
	p := r.Phases[0]
	if p.Dataset != "sts-b" || p.NumLabels != 1 || p.Length != 128 || p.MicroBatch != 8 || p.Accumulation != 2 || p.Replicas != 8 ||
		p.GlobalBatch != 128 || p.Steps != 1000 || p.Epochs != 0 {
		t.Errorf("phase is %+v", p)
	}
	if s := p.Schedule; s.WarmupSteps != 100 || s.WarmupRatio != 0 {
		t.Errorf("schedule is %+v, want the steps of the warm-up to go before its share", s)
	}
	if e := p.Evaluation; e.Every != 50 || e.Batch != 64 || e.Metric != "spearman" || !e.KeepBest {
		t.Errorf("evaluation is %+v", e)
	}
	if r.Model.NumHiddenLayers != 24 || r.Vocab.Lowercase || r.Model.VocabSize != 28996 {
		t.Errorf("model is %+v, vocabulary %+v", r.Model, r.Vocab)
	}
	if b := r.ForBackend("gpu-ref", "", p.Name); b.Precision != "fp16" {
		t.Errorf("gpu-ref is %+v, want fp16", b)
	}
}

// importedWith imports a command line with the text of an ipu_config.json.
func importedWith(t *testing.T, line, config string) *Imported {
	t.Helper()
	words, err := Split(line)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Import(words, Settings{IPUConfig: configFile(t, config)})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func configFile(t *testing.T, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ipu_config.json")
	if err := os.WriteFile(file, []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// onIPUs is the kind of command that Graphcore's model cards show.
const onIPUs = `python run_qa.py --ipu_config_name Graphcore/bert-base-ipu --model_name_or_path bert-base-uncased
	--dataset_name squad_v2 --do_train --num_train_epochs 3 --per_device_train_batch_size 1 --learning_rate 9e-5
	--warmup_ratio 0.2 --loss_scaling 64 `

// TestIPU takes the configuration of Graphcore/bert-base-ipu.
func TestIPU(t *testing.T) {
	r, made := imported(t, onIPUs+"--gradient_accumulation_steps 8 --pod_type pod16")
	p := r.Phases[0]
	if p.Dataset != "squad2" || p.MicroBatch != 1 || p.Accumulation != 8 || p.Replicas != 4 || p.Schedule.WarmupRatio != 0.2 {
		t.Errorf("phase is %+v", p)
	}
	b := r.ForBackend("ipu", "", p.Name)
	want := recipe.Options{
		"loss_scale":                  "64",
		"optimizer_state":             "onchip",
		"replicated_tensor_sharding":  "true",
		"recomputation":               "layer",
		"embedding_serialization":     "2",
		"available_memory_proportion": "0.22",
		"pipeline":                    "0,4,4,4",
		"attention_mask_value":        "model",
		"accumulation":                "running_mean",
		"system":                      "ipu-pod16",
	}
	if diff := cmp.Diff(want, b.Options); diff != "" || b.Precision != "fp16.16" {
		t.Errorf("precision %s\n%s", b.Precision, diff)
	}
	if r.Model.AttentionMask != -1000 {
		t.Errorf("mask is %g, want -1000", r.Model.AttentionMask)
	}
	if o := p.Optimizer.Options; o["first_moment"] != "fp16" || o["first_moment_scale"] != "64" {
		t.Errorf("optimizer has %v, want the first moment in FP16, times the loss scale", o)
	}
	if r.Model.Initializer != bert.Normal {
		t.Errorf("initializer is %q, want Hugging Face's", r.Model.Initializer)
	}
	if len(made.Refused) > 0 {
		t.Errorf("not honoured: %q, want nothing", made.Refused)
	}
	if want := "--seed 42\n"; !strings.Contains(string(made.Text), want) {
		t.Errorf("the recipe does not say %q, the configuration's", want)
	}
	if _, made := imported(t, onIPUs+"--seed 1984"); !strings.Contains(string(made.Text), "--seed 1984\n") ||
		!slices.ContainsFunc(made.Notes, func(n string) bool { return strings.Contains(n, "IPUConfig seed 42") }) {
		t.Errorf("of the seeds of command line and configuration the recipe says\n%s", made.Text)
	}
}

// TestIPUOverrides: overrides replace what the configuration says, and the command line's own options replace both.
func TestIPUOverrides(t *testing.T) {
	r, _ := imported(t, onIPUs+"--ipu_config_overrides 'layers_per_ipu=[-1 5],replication_factor=2,enable_half_partials=False,"+
		"auto_loss_scaling=True,gradient_accumulation_steps=16' --lamb_no_bias_correction")
	p := r.Phases[0]
	b := r.ForBackend("ipu", "", p.Name)
	if b.Options["pipeline"] != "7,5" || p.Replicas != 2 || p.Accumulation != 16 || b.Precision != "fp16.32" ||
		b.Options["loss_scale"] != "auto" {
		t.Errorf("phase is %+v, backend %+v", p, b)
	}
	if p.Optimizer.Name != "lamb" || p.Optimizer.Options["bias_correction"] != "false" {
		t.Errorf("optimizer is %+v", p.Optimizer)
	}
}

// TestIPUPerReplica: a single -1 stands for all IPUs of a replica, and empty fields are not refused.
func TestIPUPerReplica(t *testing.T) {
	made := importedWith(t, onIPUs,
		`{"layers_per_ipu": [-1], "ipus_per_replica": 4, "parallelize_kwargs": {}, "projection_serialization_factor": null}`)
	if len(made.Refused) > 0 || !strings.Contains(string(made.Text), `pipeline: "3,3,3,3"`) {
		t.Errorf("not honoured: %q, want nothing\n%s", made.Refused, made.Text)
	}
	made = importedWith(t, onIPUs, `{"layers_per_ipu": [6, 6], "ipus_per_replica": 4}`)
	if want := "ipus_per_replica 4: layers_per_ipu is of 2 IPUs"; !strings.Contains(strings.Join(made.Refused, "; "), want) {
		t.Errorf("not honoured: %q, want %q", made.Refused, want)
	}
}

// TestIPUFile: a file replaces the configuration that the command line names.
func TestIPUFile(t *testing.T) {
	made := importedWith(t, onIPUs, `{"layers_per_ipu": [6, 6], "replication_factor": 8,
		"projection_serialization_factor": 5, "matmul_proportion": [0.1, 0.2]}`)
	for _, want := range []string{`pipeline: "6,6"`, "replicas: 8", `available_memory_proportion: "0.1,0.2"`} {
		if !strings.Contains(string(made.Text), want) {
			t.Errorf("recipe lacks %q:\n%s", want, made.Text)
		}
	}
	if len(made.Refused) != 1 || !strings.Contains(made.Refused[0], "projection_serialization_factor 5") {
		t.Errorf("not honoured: %q, want the projection's serialization", made.Refused)
	}
}

// TestNothingIsDropped: every option of a command line becomes a field or is named.
func TestNothingIsDropped(t *testing.T) {
	refused := []string{
		"label_smoothing_factor 0.1", "never_heard_of_it", "lr_scheduler_type cosine", "optim adafactor", "max_train_samples 100",
		"tokenizer_name other", "evaluation_strategy epoch", "metric_for_best_model rouge", "do_predict",
	}
	_, made := imported(t, squadReadme+" --"+strings.Join(refused, " --"))
	for _, option := range refused {
		if !slices.ContainsFunc(made.Refused, func(r string) bool { return strings.HasPrefix(r, "--"+option+":") }) {
			t.Errorf("--%s is not named among %q", option, made.Refused)
		}
		if !strings.Contains(string(made.Text), "#   --"+option) {
			t.Errorf("--%s is not named in the recipe", option)
		}
	}
	if len(made.Refused) != len(refused) {
		t.Errorf("%d options are refused, want %d: %q", len(made.Refused), len(refused), made.Refused)
	}
}

// TestPods: in older configurations a field may have a value for each type of pod.
func TestPods(t *testing.T) {
	file := configFile(t, `{
		"layers_per_ipu": [0, 4, 4, 4],
		"replication_factor": {"default": 1, "pod16": 4},
		"gradient_accumulation_steps": {"pod8": 32, "pod16": 16}
	}`)
	line := []string{"run_qa.py", "--model_name_or_path", "bert-base-uncased"}
	made, err := Import(append(line, "--pod_type", "pod16", "--dataloader_drop_last"), Settings{IPUConfig: file})
	if err != nil || len(made.Refused) > 0 || len(made.Notes) != 1 || // that weights are not downloaded
		!strings.Contains(string(made.Text), "accumulation: 16\n  replicas: 4\n") {
		t.Errorf("%v\n%+v", err, made)
	}
	const want = "gradient_accumulation_steps has values for pod16, pod8, and no default"
	if _, err := Import(line, Settings{IPUConfig: file}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without a type of pod: %v, want %q", err, want)
	}
}

func TestErrors(t *testing.T) {
	for line, want := range map[string]string{
		"python train.py --learning_rate 3e-5":                                              "names none of run_qa.py, run_glue.py, run_ner.py",
		"run_qa.py config.json":                                                             "a file of options is not read",
		"run_qa.py --dataset_name squad":                                                    "--model_name_or_path is not given",
		"run_glue.py --model_name_or_path bert-base-uncased":                                "--task_name is not given",
		"run_glue.py --model_name_or_path bert-base-uncased --task_name squad":              `--task_name is "squad", want a task of GLUE`,
		"run_qa.py --model_name_or_path bert-base-uncased --learning_rate fast":             `--learning_rate is "fast", want a number`,
		"run_qa.py --model_name_or_path bert-base-uncased --max_seq_length 0":               `--max_seq_length is "0", want a whole number`,
		"run_qa.py --model_name_or_path bert-base-uncased --max_seq_length 4000":            "gives no valid recipe",
		"run_qa.py --model_name_or_path bert-base-uncased --ipu_config_overrides a":         `"a", want KEY=VALUE`,
		"run_qa.py --model_name_or_path bert-base-uncased --pod_type pod5":                  `want pod4, pod8`,
		"torchrun --nproc_per_node many run_qa.py --model_name_or_path bert-base-uncased":   `--nproc_per_node is "many"`,
		"run_qa.py --model_name_or_path bert-base-uncased --train_file 'it''s \"a\" b.json": "is not closed",
	} {
		words, err := Split(line)
		if err == nil {
			_, err = Import(words, Settings{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want in it %q", line, err, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"a 'b c' \"d \\\" e\" f\\ g \\\n  h# # comment 'x\ni ''": {"a", "b c", "d \" e", "f g", "h#", "i", ""},
		// The example of transformers, examples/pytorch/text-classification/README.md, is of this kind.
		"export TASK_NAME=mrpc\n\npython run_glue.py \\\n  --task_name $TASK_NAME \\\n  --output_dir /tmp/${TASK_NAME}_1/\n": {
			"python", "run_glue.py", "--task_name", "mrpc", "--output_dir", "/tmp/mrpc_1/"},
		"#!/bin/bash\nset -e\nA=1 B='2 3'\nrun_qa.py --a \"$A $B\" '$A' $C\necho $A done": {"run_qa.py", "--a", "1 2 3", "$A", "$C"},
		"run_qa.py --a 1\n  # why\n  --b 2\n\nls":                                         {"run_qa.py", "--a", "1", "--b", "2"},
		"cd x && run_qa.py --a 1 2>&1 > out.txt | tee log; echo":                          {"run_qa.py", "--a", "1"},
		"run_qa.py --a '1;2' \"3>4\" &":                                                   {"run_qa.py", "--a", "1;2", "3>4"},
		"run_qa.py \\\r\n --a 1 \\\r\n --b 2\r\nls\r\n":                                   {"run_qa.py", "--a", "1", "--b", "2"},
		"run_qa.py --a $": {"run_qa.py", "--a", "$"},
		"CMD=\"python run_qa.py \"\nCMD+=\" --a 1\"\nCMD+=' --b'\n$CMD": {"python", "run_qa.py", "--a", "1", "--b"},
		"bash -c \"python run_qa.py --a '1 2'\"":                        {"bash", "-c", "python", "run_qa.py", "--a", "1 2"},
		"run_qa.py --a 1 \\  \n --b 2":                                  {"run_qa.py", "--a", "1", "--b", "2"},
	} {
		if got, err := Split(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("words of %q are %q (%v), want %q", text, got, err, want)
		}
	}
	if _, err := Split("run_qa.py --a 1\nrun_glue.py --b 2"); err == nil || !strings.Contains(err.Error(), "2 commands") {
		t.Errorf("two commands give %v", err)
	}
}

func TestPipeline(t *testing.T) {
	for _, test := range []struct {
		layers string
		total  int
		want   string // empty: an error
	}{
		{"3 7 7 7", 24, "3,7,7,7"},
		{"-1", 12, "12"},
		{"-1 -1 -1", 4, "1,1,2"},
		{"0 -1 -1 -1", 12, "0,4,4,4"},
		{"3 7 7 7", 12, ""},
		{"x", 12, ""},
		{"-2 14", 12, ""},
	} {
		got, err := pipeline(strings.Fields(test.layers), test.total)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s of %d: %q, %v, want %q", test.layers, test.total, got, err, test.want)
		}
	}
}

// FuzzImport: whatever stands on a command line, it makes a recipe that can be read, or an error.
func FuzzImport(f *testing.F) {
	f.Add(squadReadme)
	f.Add("run_glue.py --model_name_or_path x --task_name mrpc --learning_rate 1e-400 --train_file 'a\"b: {' " +
		"--ipu_config_overrides a=1,layers_per_ipu=3")
	f.Add("run_qa.py --model_name_or_path \"a\nb: c\" --seed 1 --bogus '\n- x' --ipu_config_name none --n_ipu 3")
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil {
			return
		}
		made, err := Import(words, Settings{})
		if err != nil {
			return
		}
		if _, err := recipe.Parse("imported.yaml", made.Text); err != nil {
			t.Errorf("%v\n%s", err, made.Text)
		}
	})
}
