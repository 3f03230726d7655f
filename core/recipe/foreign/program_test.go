package foreign

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

// TestLaunchers: the processes of a launcher are replicas, and a launcher that does not say how many there are is
// named.
func TestLaunchers(t *testing.T) {
	config := filepath.Join(t.TempDir(), "accelerate.yaml")
	if err := os.WriteFile(config, []byte("num_machines: 1\nmixed_precision: bf16\nnum_processes: 6\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	const line = " run_glue.py --model_name_or_path bert-base-cased --task_name rte --do_train --per_device_train_batch_size 4"
	for launcher, want := range map[string]struct {
		replicas int
		unclear  string // in a line that is not honoured; empty: all is understood
	}{
		"python3 -u":                               {1, ""},
		"nohup time python":                        {1, ""},
		"OMP_NUM_THREADS=4 python":                 {1, ""},
		"CUDA_VISIBLE_DEVICES=0,2,3 python":        {3, ""},
		"CUDA_VISIBLE_DEVICES=0,2,3 torchrun":      {1, ""},
		"torchrun --nproc_per_node 8":              {8, ""},
		"torchrun --nnodes=2 --nproc-per-node=8":   {16, ""},
		"torchrun --standalone --nproc_per_node 4": {4, ""},
		"python -m torch.distributed.launch --nproc_per_node=2 --nnodes 3 --node_rank 0": {6, ""},
		"python -m torch.distributed.run --nproc_per_node 2":                             {2, ""},
		"deepspeed --num_gpus 4":                                     {4, ""},
		"deepspeed --num_gpus=4 --num_nodes=2":                       {8, ""},
		"deepspeed --include localhost:0,1,5":                        {3, ""},
		"deepspeed":                                                  {1, "deepspeed: the command line does not say"},
		"mpirun -np 8 --allow-run-as-root -x LD_PRELOAD=a.so python": {8, ""},
		"mpiexec -n 2 python":                                        {2, ""},
		"mpirun --hostfile hosts python":                             {1, "mpirun: the command line does not say"},
		"horovodrun -np 4 -H a:2,b:2 python":                         {4, ""},
		"srun -n 4 python":                                           {4, ""},
		"srun -n16 python":                                           {16, ""},
		"srun -N 2 --ntasks-per-node=8 python":                       {16, ""},
		"srun --nodes 3 python":                                      {3, ""},
		"srun -N 2 --ntasks-per-node 1 torchrun --nnodes 2 --nproc_per_node 8": {16, ""},
		"srun -n 4 torchrun --nproc_per_node 8":                                {8, "srun starts 4 of torchrun, which is for 1 machines"},
		"accelerate launch --multi_gpu --num_processes 4":                      {4, ""},
		"accelerate launch --config_file " + config:                            {6, ""},
		"accelerate launch --config_file none.yaml":                            {1, "accelerate: the command line does not say"},
		"accelerate launch": {1, "accelerate: the command line does not say"},
		"poprun --num-instances 2 --num-replicas 8 python": {8, ""},
		"python xla_spawn.py --num_cores 8":                {8, ""},
		"python xla_spawn.py":                              {1, ""},
		"./my-launcher 8":                                  {1, `"./my-launcher" before run_glue.py: it is not understood`},
		"$LAUNCH python":                                   {1, `"$LAUNCH" before run_glue.py`},
	} {
		r, made := imported(t, launcher+line)
		if p := r.Phases[0]; p.Replicas != want.replicas || p.GlobalBatch != 4*want.replicas {
			t.Errorf("%s: %d replicas, global batch %d, want %d and %d", launcher, p.Replicas, p.GlobalBatch, want.replicas, 4*want.replicas)
		}
		got := strings.Join(made.Refused, "; ")
		if want.unclear == "" && got != "" || !strings.Contains(got, want.unclear) {
			t.Errorf("%s: not honoured: %q, want %q", launcher, got, want.unclear)
		}
	}
	r, _ := imported(t, "accelerate launch --config_file "+config+line)
	if b := r.ForBackend("gpu-ref", "", "rte"); b.Precision != "bf16" {
		t.Errorf("accelerate's configuration has bf16, gpu-ref is %+v", b)
	}
	for _, launcher := range []string{"torchrun --nproc_per_node gpu", "torchrun --nnodes 1:4", "mpirun -np $N python", "srun -n 0 python"} {
		words, err := Split(launcher + line)
		if err == nil {
			_, err = Import(words, Settings{})
		}
		if err == nil || !strings.Contains(err.Error(), "want a number of processes") {
			t.Errorf("%s: %v, want an error about the number of processes", launcher, err)
		}
	}
}

// TestPrograms: a line of each program, with its defaults where options are absent.
func TestPrograms(t *testing.T) {
	type phase struct {
		task                        bert.Task
		length, micro, accumulation int
		replicas, steps             int
		epochs, rate, warmup        float64
		kind                        string
		optimizer, eps, clip        string
	}
	google := func(rest string) string {
		return rest + " --vocab_file=v/vocab.txt --bert_config_file=v/cased_L-24_H-1024_A-16/bert_config.json --do_train=true"
	}
	nvidia := func(rest string) string {
		return rest + " --config_file bert_configs/large.json --vocab_file vocab --do_train --do_lower_case"
	}
	for line, want := range map[string]phase{
		"run_qa_no_trainer.py --model_name_or_path google-bert/bert-base-uncased --dataset_name squad_v2 --num_warmup_steps 7 " +
			"--max_train_steps 90 --checkpointing_steps epoch": {
			bert.QuestionAnswering, 384, 8, 1, 1, 90, 0, 5e-5, 7, recipe.Linear, "adamw", "1e-8", "0"},
		"run_glue_no_trainer.py --model_name_or_path bert-base-cased --task_name cola --max_length 64": {
			bert.Classification, 64, 8, 1, 1, 0, 3, 5e-5, 0, recipe.Linear, "adamw", "1e-8", "0"},
		"run_ner.py --model_name_or_path bert-base-cased --dataset_name conll2003 --return_entity_level_metrics": {
			bert.TokenClassification, 512, 8, 1, 1, 0, 3, 5e-5, 0, recipe.Linear, "adamw", "1e-8", "1"},
		"run_swag.py --model_name_or_path bert-base-uncased --per_device_train_batch_size 16 --max_seq_length 80": {
			bert.MultipleChoice, 80, 64, 1, 1, 0, 3, 5e-5, 0, recipe.Linear, "adamw", "1e-8", "1"},
		"run_swag_no_trainer.py --model_name_or_path bert-base-uncased": {
			bert.MultipleChoice, 128, 32, 1, 1, 0, 3, 5e-5, 0, recipe.Linear, "adamw", "1e-8", "0"},
		"run_ner_no_trainer.py --model_name_or_path bert-base-cased --train_file a.json --validation_file b.json": {
			bert.TokenClassification, 128, 8, 1, 1, 0, 3, 5e-5, 0, recipe.Linear, "adamw", "1e-8", "0"},
		"run_squad.py --model_type bert --model_name_or_path bert-large-uncased --train_file t.json --predict_file d.json " +
			"--per_gpu_train_batch_size 3": {
			bert.QuestionAnswering, 384, 3, 1, 1, 0, 3, 5e-5, 0, recipe.Linear, "adamw", "1e-8", "1"},
		google("run_squad.py --train_batch_size=24 --use_tpu=True --num_tpu_cores=8"): {
			bert.QuestionAnswering, 384, 24, 1, 1, 0, 3, 5e-5, 0.1, "google", "adamw", "1e-6", "1"},
		google("run_classifier.py --task_name=MNLI --data_dir=glue/MNLI"): {
			bert.Classification, 128, 32, 1, 1, 0, 3, 5e-5, 0.1, "google", "adamw", "1e-6", "1"},
		google("run_pretraining.py --train_batch_size=16"): {
			bert.Pretraining, 128, 16, 1, 1, 100000, 0, 5e-5, 10000, "google", "adamw", "1e-6", "1"},
		nvidia("torchrun --nproc_per_node 8 run_squad.py --init_checkpoint c.pt --fp16"): {
			bert.QuestionAnswering, 384, 32, 1, 8, 0, 3, 5e-5, 0.1, recipe.Linear, "adamw", "1e-8", "1"},
		nvidia("python run_squad.py --init_checkpoint c.pt --gradient_accumulation_steps 4"): {
			bert.QuestionAnswering, 384, 8, 4, 1, 0, 3, 5e-5, 0.1, recipe.Linear, "adamw", "1e-6", "1"},
		nvidia("python run_glue.py --task_name sst-2 --data_dir SST-2 --amp"): {
			bert.Classification, 128, 32, 1, 1, 0, 3, 5e-5, 0.1, recipe.Linear, "adamw", "1e-8", "0"},
		nvidia("python -m torch.distributed.launch --nproc_per_node=2 run_pretraining.py --train_batch_size=64 " +
			"--gradient_accumulation_steps=16 --fp16"): {
			bert.Pretraining, 512, 4, 16, 2, 1000, 0, 5e-5, 0.01, "nvidia", "lamb", "1e-6", "1"},
		"bash scripts/run_squad.sh /ckpt.pt 2.0 32 4.6e-5 0.2 fp16 8": {
			bert.QuestionAnswering, 384, 32, 1, 8, 0, 2, 4.6e-5, 0.2, recipe.Linear, "adamw", "1e-8", "1"},
		"run_pretraining.py --config_name bert-base-uncased --tokenizer_name bert-base-uncased --max_seq_length 128 --max_steps 50 " +
			"--lamb --config_overrides layer_norm_eps=0.001": {
			bert.Pretraining, 128, 8, 1, 1, 50, 0, 5e-5, 0, recipe.Linear, "lamb", "1e-8", "0"},
	} {
		r, _ := imported(t, line)
		p := r.Phases[0]
		got := phase{p.Task, p.Length, p.MicroBatch, p.Accumulation, p.Replicas, p.Steps, p.Epochs, p.Schedule.LearningRate,
			p.Schedule.WarmupRatio + float64(p.Schedule.WarmupSteps), p.Schedule.Kind, p.Optimizer.Name, p.Optimizer.Options["eps"],
			p.Optimizer.Options["max_grad_norm"]}
		if got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", line, got, want)
		}
	}
}

// TestNVIDIAScript: the defaults of run_pretraining.sh and of its configuration for a DGX A100 are the built-in recipe.
func TestNVIDIAScript(t *testing.T) {
	r, _ := imported(t, "bash scripts/run_pretraining.sh 8192 6e-3 fp16 8 0.2843 7038 200 false true true 32 42 name true true 4096 4e-3 "+
		"0.128 1563 128")
	want, err := recipe.Load("nvidia/large")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Phases) != 2 {
		t.Fatalf("%d phases, want 2", len(r.Phases))
	}
	for i := range r.Phases {
		p, q := r.Phases[i], want.Phases[i]
		if p.Name != q.Name || p.Length != q.Length || p.GlobalBatch != q.GlobalBatch || p.MicroBatch != q.MicroBatch || p.Steps != q.Steps ||
			p.Schedule != q.Schedule || p.MaxPredictions != q.MaxPredictions || p.CarryOptimizerState != q.CarryOptimizerState {
			t.Errorf("phase %d is %+v, want as in nvidia/large %+v", i, p, q)
		}
		for k, v := range q.Optimizer.Options {
			if p.Optimizer.Options[k] != v {
				t.Errorf("phase %d: optimizer's %s is %q, want %q", i, k, p.Optimizer.Options[k], v)
			}
		}
	}
	if r.Model.Config != want.Model.Config || r.Vocab != want.Vocab {
		t.Errorf("model %+v, vocabulary %+v, want %+v, %+v", r.Model.Config, r.Vocab, want.Model.Config, want.Vocab)
	}
}

// TestModels: names that say the shape, a file that does, and an unknown name.
func TestModels(t *testing.T) {
	for line, want := range map[string]struct {
		layers, hidden, vocabulary int
		lowercase                  bool
	}{
		"run_qa.py --model_name_or_path google/bert_uncased_L-4_H-512_A-8":                                 {4, 512, 30522, true},
		"run_qa.py --model_name_or_path google/bert_uncased_L-6_H-256_A-4":                                 {6, 256, 30522, true},
		"run_qa.py --model_name_or_path bert-base-multilingual-cased":                                      {12, 768, 119547, false},
		"run_squad.py --bert_config_file x/wwm_uncased_L-24_H-1024_A-16/bert_config.json --do_train":       {24, 1024, 30522, true},
		"run_squad.py --bert_config_file x/cased_L-12_H-768_A-12/bert_config.json --do_lower_case=False":   {12, 768, 28996, false},
		"run_squad.py --bert_config_file x/chinese_L-12_H-768_A-12/bert_config.json":                       {12, 768, 21128, true},
		"run_squad.py --config_file bert_configs/base.json --bert_model bert-base-uncased --do_lower_case": {12, 768, 30522, true},
	} {
		r, _ := imported(t, line)
		if r.Model.NumHiddenLayers != want.layers || r.Model.HiddenSize != want.hidden || r.Model.VocabSize != want.vocabulary ||
			r.Vocab.Lowercase != want.lowercase {
			t.Errorf("%s: model %+v, vocabulary %+v, want %+v", line, r.Model.Config, r.Vocab, want)
		}
	}
	file := filepath.Join(t.TempDir(), "bert_config.json")
	if err := os.WriteFile(file, []byte(`{"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 200,
		"vocab_size": 500}`), 0o666); err != nil {
		t.Fatal(err)
	}
	r, made := imported(t, "run_squad.py --do_train --bert_config_file "+file)
	if c := r.Model.Config; c.HiddenSize != 96 || c.NumHiddenLayers != 3 || c.IntermediateSize != 200 || len(made.Refused) > 0 {
		t.Errorf("model is %+v, not honoured: %q", c, made.Refused)
	}
	r, made = imported(t, "run_qa.py --model_name_or_path my-large-thing")
	if r.Model.NumHiddenLayers != 24 || !strings.Contains(strings.Join(made.Refused, ";"), "BERT-Large is assumed") {
		t.Errorf("%d layers, not honoured: %q", r.Model.NumHiddenLayers, made.Refused)
	}
}

// TestVariables: variables are replaced by their values or their defaults; those without are named.
func TestVariables(t *testing.T) {
	r, made := imported(t, "LR=${LR:-2e-5}\nexport DIR=/b/uncased_L-2_H-128_A-2 CUDA_VISIBLE_DEVICES=0,1\nBS=${1:-\"12\"}\n"+
		"run_glue.py --model_name_or_path bert-tiny --task_name rte --learning_rate $LR --per_device_train_batch_size ${BS:-6} "+
		"--output_dir $OUT/x --train_file $DATA/a.tsv")
	p := r.Phases[0]
	if p.Schedule.LearningRate != 2e-5 || p.Replicas != 2 {
		t.Errorf("phase is %+v", p)
	}
	for _, name := range []string{"--output_dir $OUT/x: the variable $OUT is not set", "--train_file $DATA/a.tsv: the variable $DATA"} {
		if !slices.ContainsFunc(made.Refused, func(s string) bool { return strings.HasPrefix(s, name) }) {
			t.Errorf("not honoured: %q, want in it %q", made.Refused, name)
		}
	}
}

// TestRefusedPrograms: a command of another model, an unknown task or several programs gives an error that says so.
func TestRefusedPrograms(t *testing.T) {
	for line, want := range map[string]string{
		"run_qa.py --model_name_or_path FacebookAI/roberta-large":                                               "is RoBERTa: only BERT",
		"run_glue.py --model_name_or_path distilbert-base-uncased --task_name rte":                              "is DistilBERT: only BERT",
		"run_ner.py --model_name_or_path microsoft/deberta-v3-base":                                             "is DeBERTa",
		"run_mlm.py --model_type albert --train_file a.txt --max_steps 1":                                       "is ALBERT",
		"run_qa.py --model_name_or_path kykim/mobilebert":                                                       "is MobileBERT",
		"run_xnli.py --model_name_or_path bert-base-multilingual-cased":                                         "there is no task xnli",
		"run_clm.py --model_name_or_path gpt2":                                                                  "is for GPT",
		"run_ner.py --model_name_or_path bert-base-cased --task_name pos":                                       "no such task, want ner",
		"run_glue.py --model_name_or_path bert-base-cased --dataset_name imdb":                                  `--dataset_name is "imdb"`,
		"run_mlm.py --model_name_or_path bert-base-cased --train_file a.txt":                                    "give --max_steps",
		"mpirun -np 4 python run_squad.py --bert_config_file a/bert_config.json --horovod":                      "NVIDIA's TensorFlow BERT",
		"mpirun -np 4 python run_squad.py --bert_config_file c.json":                                            "does not share its batch",
		"run_pretraining.py --config pretrain_base_128":                                                         "harness recipe list graphcore",
		"run_pretraining.py --learning_rate 1":                                                                  "several programs are called",
		"run_glue.py --config_file l.json --task_name rte --train_batch_size 6 --gradient_accumulation_steps 4": "want a multiple of --grad",
		"run_qa.py --model_name_or_path bert-base-cased --learning_rate $LR":                                    "the variable $LR is not set",
		"bash run_squad.sh $(source c.sh && f)":                                                                 "harness recipe list nvidia",
		"bash run_squad.sh a 1 2 3e-5 0.1 fp8":                                                                  `precision is "fp8"`,
		"bash scripts/run_pretraining.sh":                                                                       "number of GPUs, is not given",
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

// TestMaskedWords: run_mlm.py's steps may come from outside, and what its batches lack is named.
func TestMaskedWords(t *testing.T) {
	words, err := Split("run_mlm.py --model_name_or_path bert-base-uncased --train_file w.txt --mlm_probability 0.2 --max_seq_length 100 " +
		"--validation_split_percentage 10 --line_by_line")
	if err != nil {
		t.Fatal(err)
	}
	made, err := Import(words, Settings{MaxSteps: 77})
	if err != nil {
		t.Fatal(err)
	}
	r, err := recipe.Parse("imported.yaml", made.Text)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Phases[0]
	if p.Steps != 77 || p.MaxPredictions != 20 || p.Masking.MaskedLMProb != 0.2 || p.Masking.Kind != recipe.DynamicMasking ||
		r.Data.HeldOut != 0.1 || !slices.Equal(r.Data.Files.Text, []string{"w.txt"}) {
		t.Errorf("phase %+v, masking %+v, data %+v", p, p.Masking, r.Data)
	}
	for _, want := range []string{"run_mlm.py: it trains on masked words alone", "--line_by_line"} {
		if !slices.ContainsFunc(made.Refused, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("not honoured: %q, want in it %q", made.Refused, want)
		}
	}
}
