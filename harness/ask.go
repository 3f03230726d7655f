package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
)

// asker is a fine-tuned model that answers.
type asker struct {
	tuned   experiment.FineTuning
	backend string
	batch   int
}

// open starts the model. The caller closes it.
func (a *asker) open(cmd *cobra.Command) (*experiment.Serving, error) {
	arm, err := experiment.ParseArm(a.backend, "")
	if err != nil {
		return nil, err
	}
	r, err := a.tuned.LoadTrained()
	if err != nil {
		return nil, advise(err)
	}
	if phase := r.Phases[len(r.Phases)-1]; phase.Task != bert.QuestionAnswering {
		return nil, fmt.Errorf("task %s has no questions about passages", phase.FineTuning().Name)
	}
	s, err := experiment.Inference{Arm: arm, Transport: host.Transport("memory"), Batch: a.batch, Recipe: r}.Serve(cmd.Context())
	return s, advise(err)
}

func newAsk() *cobra.Command {
	a := asker{batch: 1}
	var question, passage, format string
	cmd := &cobra.Command{
		Use:   "ask --model DIR --passage FILE [--question TEXT]",
		Short: "Ask a fine-tuned model questions about a passage",
		Long: `Ask has a model that was fine-tuned on questions about passages (squad and the like) answer one question, or each line of standard
input, with a part of the passage in a file.`,
		Example: `  harness ask --model runs/mine/gpu-ref-adamw-seed1/model --passage passage.txt --question 'Where was she born?'
  harness ask --model bert-squad --task squad --passage passage.txt --format json < questions.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if a.tuned.Model == "" || passage == "" {
				return hint.With(errors.New("want --model and --passage"), "harness ask --model DIR --passage passage.txt --question 'Who?'")
			}
			if format != "text" && format != "json" {
				return fmt.Errorf("format is %q, want text or json", format)
			}
			text, err := bounded.ReadFile(filepath.Clean(passage), bounded.MiB)
			if err != nil {
				return err
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			ask := func(q string) error {
				answers, err := s.Ask(cmd.Context(), []evaluation.Question{{Passage: string(text), Question: q}})
				if err != nil {
					return err
				}
				if format == "json" {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(answers[0])
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s (%.0f%%)\n", answers[0].Answer, 100*answers[0].Probability)
				return err
			}
			if question != "" {
				return ask(question)
			}
			lines := bufio.NewScanner(cmd.InOrStdin())
			for lines.Scan() {
				if q := strings.TrimSpace(lines.Text()); q != "" {
					if err := ask(q); err != nil {
						return err
					}
				}
			}
			return lines.Err()
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.tuned.Model, "model", "", "folder of the model")
	f.StringVar(&a.tuned.Task, "task", "", "task (default: the one that the model was fine-tuned on)")
	f.StringVar(&a.tuned.Recipe, "recipe", "", "recipe (default: the one in the model's folder)")
	f.StringVar(&a.backend, "backend", "gpu-ref", "backend, NAME, NAME:PRECISION or either with ?OPTION=VALUE&...")
	f.StringVar(&passage, "passage", "", "file with the passage")
	f.StringVar(&question, "question", "", "the question (default: each line of standard input)")
	f.StringVar(&format, "format", "text", "text or json")
	return cmd
}
