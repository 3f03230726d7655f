package foreign

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// shellScript is one of NVIDIA's shell scripts, which run a program with options made of their positional arguments.
type shellScript struct {
	// arguments in their order: name and default.
	arguments [][2]string
	// lines are the command lines; {NAME} stands for an argument.
	lines []string
	// phases are the names of the lines' phases, if there are several.
	phases []string
}

// shellScripts by name. Source: NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT, scripts.
var shellScripts = map[string]shellScript{
	"run_squad.sh": {
		arguments: [][2]string{{"init_checkpoint", "/workspace/bert/checkpoints/bert_uncased.pt"}, {"epochs", "2.0"}, {"batch", "4"},
			{"rate", "3e-5"}, {"warmup", "0.1"}, {"precision", "fp16"}, {"gpus", "8"}, {"seed", "1"}, {"squad", ""}, {"vocab", ""},
			{"out", ""}, {"mode", "train eval"}, {"config", "/workspace/bert/bert_configs/large.json"}, {"max_steps", "-1"}},
		lines: []string{"torchrun --nproc_per_node={gpus} run_squad.py --init_checkpoint={init_checkpoint} --do_train --do_predict " +
			"--train_batch_size={batch} --predict_batch_size={batch} --do_lower_case --bert_model=bert-large-uncased " +
			"--learning_rate={rate} --warmup_proportion={warmup} --seed={seed} --num_train_epochs={epochs} --max_seq_length=384 " +
			"--doc_stride=128 --config_file={config} --max_steps={max_steps} {precision}"},
	},
	"run_glue.sh": {
		arguments: [][2]string{{"init_checkpoint", "/workspace/bert/checkpoints/bert_uncased.pt"}, {"data", ""}, {"vocab", ""},
			{"config", "/workspace/bert/bert_configs/large.json"}, {"out", ""}, {"task", "mrpc"}, {"gpus", "8"}, {"batch", "16"},
			{"accumulation", "1"}, {"rate", "2.4e-5"}, {"warmup", "0.1"}, {"epochs", "3"}, {"max_steps", "-1.0"}, {"precision", "fp16"},
			{"seed", "2"}, {"mode", "train eval"}},
		lines: []string{"torchrun --nproc_per_node={gpus} run_glue.py --task_name {task} --do_train --train_batch_size={batch} " +
			"--do_eval --eval_batch_size={batch} --gradient_accumulation_steps={accumulation} --do_lower_case " +
			"--bert_model bert-large-uncased --seed {seed} --init_checkpoint {init_checkpoint} --warmup_proportion {warmup} " +
			"--max_seq_length 128 --learning_rate {rate} --num_train_epochs {epochs} --max_steps {max_steps} --config_file={config} " +
			"{precision}"},
	},
	"run_pretraining.sh": {
		arguments: [][2]string{{"batch", "8192"}, {"rate", "6e-3"}, {"precision", "fp16"}, {"gpus", ""}, {"warmup", "0.2843"},
			{"steps", "7038"}, {"save", "200"}, {"resume", "false"}, {"log", "true"}, {"accumulate", "true"}, {"accumulation", "128"},
			{"seed", "12439"}, {"job", ""}, {"post", "true"}, {"post16", "true"}, {"batch2", "4096"}, {"rate2", "4e-3"},
			{"warmup2", "0.128"}, {"steps2", "1563"}, {"accumulation2", "512"}, {"data1", ""}, {"data2", ""}, {"code", ""},
			{"init_checkpoint", "None"}, {"wikipedia", ""}, {"workers", ""}, {"shards", ""}, {"loaders", ""}, {"sample", ""}, {"bin", ""},
			{"masking", "static"}, {"config", "bert_configs/large.json"}},
		lines: []string{
			"torchrun --nproc_per_node={gpus} run_pretraining.py --config_file={config} --train_batch_size={batch} " +
				"--max_seq_length=128 --max_predictions_per_seq=20 --max_steps={steps} --warmup_proportion={warmup} " +
				"--learning_rate={rate} --seed={seed} {precision} --gradient_accumulation_steps={accumulation} --do_train",
			"torchrun --nproc_per_node={gpus} run_pretraining.py --config_file={config} --train_batch_size={batch2} " +
				"--max_seq_length=512 --max_predictions_per_seq=80 --max_steps={steps2} --warmup_proportion={warmup2} " +
				"--learning_rate={rate2} --seed={seed} {precision} --gradient_accumulation_steps={accumulation2} --do_train --phase2",
		},
		phases: []string{"phase1", "phase2"},
	},
}

// IsShellScript reports whether a word is one of NVIDIA's shell scripts, which are known by their arguments.
func IsShellScript(word string) bool {
	_, ok := shellScripts[path.Base(word)]
	return ok
}

// parseShell reads a line that runs one of NVIDIA's shell scripts.
func parseShell(words []string) ([]*Command, error) {
	at := slices.IndexFunc(words, IsShellScript)
	if at < 0 {
		return nil, errNoProgram()
	}
	name := path.Base(words[at])
	script := shellScripts[name]
	given := words[at+1:]
	if len(given) > len(script.arguments) {
		return nil, fmt.Errorf("%s has %d arguments, want at most %d", name, len(given), len(script.arguments))
	}
	values := map[string]string{}
	for i, a := range script.arguments {
		values[a[0]] = a[1]
		if i < len(given) && given[i] != "" {
			values[a[0]] = given[i]
		}
		if text := values[a[0]]; strings.HasPrefix(text, "$") || strings.HasPrefix(text, "<") {
			return nil, fmt.Errorf("%s: argument %d (%s) is %s: give its value; the configurations that NVIDIA publishes are recipes here: "+
				"harness recipe list nvidia", name, i+1, a[0], text)
		}
	}
	if values["gpus"] == "" {
		return nil, fmt.Errorf("%s: argument 4, the number of GPUs, is not given: the script takes all of its machine", name)
	}
	if values["accumulate"] == "false" {
		values["accumulation"], values["accumulation2"] = "1", "1"
	}
	precision := values["precision"]
	switch precision {
	case "fp16":
		values["precision"] = "--fp16"
	case "fp32", "tf32":
		values["precision"] = ""
	default:
		return nil, fmt.Errorf("%s: precision is %q, want fp16, fp32 or tf32", name, precision)
	}
	var pairs []string
	for _, a := range script.arguments {
		pairs = append(pairs, "{"+a[0]+"}", values[a[0]])
	}
	fill := strings.NewReplacer(pairs...)
	var commands []*Command
	for i, line := range script.lines {
		var filled []string
		for _, w := range strings.Fields(line) {
			if w = fill.Replace(w); w != "" {
				filled = append(filled, w)
			}
		}
		c, err := Parse(filled)
		if err != nil {
			return nil, err
		}
		if precision == "tf32" {
			c[0].launch.precision = precision // which PyTorch takes for FP32 on the machines of these configurations
		}
		if len(script.phases) > 0 {
			c[0].phase, c[0].carries = script.phases[i], i > 0
		}
		commands = append(commands, c[0])
	}
	return commands, nil
}
