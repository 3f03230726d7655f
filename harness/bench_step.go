package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/bench"
	"harness.invalid/harness/processes"
)

func newBenchStep() *cobra.Command {
	var o benchmarking
	var s bench.StepOptions
	var task, transport string
	var set []string
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Measure training steps: backend and optimizer plugins, wire included",
		Long: `Step trains a model of a published size on random tokens. Batches are made beforehand. Matrix products count two operations
for a multiplication and an addition, and the backward pass as twice the forward pass; the optimizer and the wire are in the time but
not in the count. Sequences have no padding unless --fill says so: their lengths then lie evenly around that share, at most 60% from
it, the same in every run. Of the tokens of SQuAD's development set, 0.46 are no padding at length 384.`,
		Example: `  harness bench step --model mini --backend gpu-ref --precision bf16
  harness bench step --model mini --task squad --seq 384 --batch 8
  harness bench step --model mini --task squad --seq 384 --batch 8 --fill 0.45 --mask-padding
  harness bench step --model mini --backend gpu-ref:mxfp8
  harness bench step --model tiny --backend ipu --option stochastic_rounding=false --format json`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if s.Task, err = benchTask(task); err != nil {
				return err
			}
			if s.MaskPadding && s.Task != bert.QuestionAnswering {
				return errors.New("--mask-padding is for --task squad: it is the choice of answers that it changes")
			}
			if !(s.Fill > 0 && s.Fill <= 1) {
				return fmt.Errorf("--fill is %g, want a share above 0, up to 1", s.Fill)
			}
			if s.Options, err = benchOptions(set); err != nil {
				return err
			}
			if name, precision, ok := strings.Cut(s.Backend, ":"); ok {
				s.Backend, s.Precision = name, precision
			}
			how := processes.Options{Transport: host.Transport(transport), Output: cmd.ErrOrStderr()}
			p, err := processes.NewSet(cmd.Context(), s.Backend, how)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			if err := s.ChoosePrecision(cmd.Context(), p.Backend()); err != nil {
				return err
			}
			return o.measure(cmd, []bench.Benchmark{bench.Step(cmd.Context(), p, s)})
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Size, "model", "tiny", strings.Join(bert.SizeNames(), ", "))
	f.StringVar(&s.Backend, "backend", "gpu-ref", "backend, NAME, NAME:PRECISION, or NAME:POLICY as in compare")
	f.StringVar(&s.Precision, "precision", "", "precision of the backend (default: the backend's)")
	f.StringVar(&s.Optimizer, "optimizer", "adamw", "optimizer")
	f.StringArrayVar(&set, "option", nil, "option of the backend, NAME=VALUE (repeatable)")
	f.StringVar(&task, "task", "pretraining", "pretraining or squad")
	f.StringVar(&transport, "transport", "memory", "how tensors reach the plugins: memory or stream")
	f.IntVar(&s.Length, "seq", 128, "tokens of a sequence")
	f.IntVar(&s.Batch, "batch", 32, "sequences of a step")
	f.Float64Var(&s.Fill, "fill", 1, "share of tokens that are no padding")
	f.BoolVar(&s.MaskPadding, "mask-padding", false, "choose answers among the tokens that are no padding, which then is not computed")
	f.Float64Var(&s.Dropout, "dropout", 0.1, "dropout probability, of hidden states and of attention")
	o.flags(cmd, "steps", 10)
	return cmd
}

func benchTask(name string) (bert.Task, error) {
	switch name {
	case "pretraining":
		return bert.Pretraining, nil
	case "squad":
		return bert.QuestionAnswering, nil
	}
	return "", fmt.Errorf("task is %q, want pretraining or squad%s", name, spelling.Hint(name, []string{"pretraining", "squad"}))
}

func benchOptions(set []string) (map[string]string, error) {
	options := map[string]string{}
	for _, kv := range set {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, fmt.Errorf("--option %q: want NAME=VALUE", kv)
		}
		options[name] = value
	}
	return options, nil
}
