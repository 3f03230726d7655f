package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/asking"
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

// serveModel serves a model's answers over HTTP, for serve.
func serveModel(cmd *cobra.Command, a *asker, queue int, address string) (err error) {
	if queue < 1 || queue > 1<<16 || a.batch < 1 || a.batch > 4096 {
		return fmt.Errorf("queue is %d and batch %d, want 1 to %d and 1 to 4096", queue, a.batch, 1<<16)
	}
	if err := asking.CheckAddress(address); err != nil {
		return err
	}
	s, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Ask(cmd.Context(), []evaluation.Question{{Passage: "warm up", Question: "warm up"}}); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "answering at http://%s/ask; Ctrl-C ends\n", listener.Addr())
	return asking.NewServer(askFunc(s.Ask), a.batch, queue).Serve(cmd.Context(), listener)
}

// askFunc is an asking.Asker.
type askFunc func(context.Context, []evaluation.Question) ([]evaluation.Answer, error)

func (f askFunc) Ask(ctx context.Context, q []evaluation.Question) ([]evaluation.Answer, error) {
	return f(ctx, q)
}
