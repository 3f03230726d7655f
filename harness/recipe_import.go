package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/recipe/foreign"
	"harness.invalid/harness/hint"
)

func newRecipeImport() *cobra.Command {
	var out string
	var s foreign.Settings
	var strict bool
	cmd := &cobra.Command{
		Use:   "import [flags] (COMMAND LINE | SCRIPT | -)",
		Short: "Turn a command line of another program into a recipe",
		Long: `Import turns a command line of another program that trains BERT into a recipe: of Hugging Face's run_qa.py, run_glue.py,
run_ner.py, run_mlm.py and their _no_trainer forms, of optimum-graphcore's with their IPU options, of google-research/bert's
run_pretraining.py, run_squad.py and run_classifier.py, or of NVIDIA's PyTorch run_pretraining.py, run_squad.py and run_glue.py and
the shell scripts around them. Processes that a launcher starts (torchrun, deepspeed, mpirun, srun, accelerate, poprun, xla_spawn.py)
become replicas.

Give the command line as it is or quoted as a whole, a file that holds one (run.sh), or - for standard input. Import names every
option that the recipe can't honour, on standard error and in the recipe. It reads the IPU's configuration from the file or folder
that --ipu_config_name names; it knows Graphcore/bert-base-ipu.`,
		Example: `  harness recipe import run_qa.py --model_name_or_path bert-base-uncased --dataset_name squad --do_train --do_eval \
      --learning_rate 3e-5 --num_train_epochs 2 --per_device_train_batch_size 12
  harness recipe import --out mrpc.yaml torchrun --nproc_per_node 8 run_glue.py --model_name_or_path bert-base-cased --task_name mrpc --fp16
  harness recipe import --max-steps 10000 run_mlm.py --model_name_or_path bert-base-uncased --train_file wiki.txt
  harness recipe import --ipu-config ipu_config.json - < run.sh`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			words, err := commandLine(cmd, args)
			if err != nil {
				return err
			}
			made, err := foreign.Import(words, s)
			if err != nil {
				return err
			}
			if out == "" {
				_, err = cmd.OutOrStdout().Write(made.Text)
			} else {
				err = durable.WriteFile(out, func(w io.Writer) error {
					_, err := w.Write(made.Text)
					return err
				})
			}
			if err != nil {
				return err
			}
			for _, r := range made.Refused {
				fmt.Fprintf(cmd.ErrOrStderr(), "not honoured: %s\n", r)
			}
			for _, n := range made.Notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n)
			}
			if strict && len(made.Refused) > 0 {
				return errFailed
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the first word is the command line's own
	f.StringVar(&out, "out", "", "file to write (default standard output)")
	f.StringVar(&s.IPUConfig, "ipu-config", "", "ipu_config.json to use instead of the one that the command line names")
	f.IntVar(&s.MaxSteps, "max-steps", 0, "steps to train, in place of those or the epochs of the command line")
	f.BoolVar(&strict, "strict", false, "exit with 1 when something is not honoured")
	return cmd
}

// commandLine is the command line to import: the arguments, or what a file or standard input holds.
func commandLine(cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) > 1 || strings.HasSuffix(args[0], ".py") {
		return args, nil
	}
	if args[0] == "-" {
		text, err := bounded.ReadAll(cmd.InOrStdin(), bounded.MiB)
		if err != nil {
			return nil, err
		}
		return foreign.Split(string(text))
	}
	text, err := bounded.ReadFile(filepath.Clean(args[0]), bounded.MiB)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(args[0], " \n") {
		return foreign.Split(args[0]) // quoted as a whole
	}
	if err != nil {
		return nil, hint.With(errors.Join(errors.New("neither a command line nor a file that has one"), err),
			"harness recipe import run_qa.py --dataset_name squad ...")
	}
	if foreign.IsShellScript(args[0]) && strings.Contains(string(text), "CMD+=") {
		return args, nil // NVIDIA's, without arguments: how it makes its command is known
	}
	words, err := foreign.Split(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return words, nil
}
