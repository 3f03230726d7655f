package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/bert"
	"harness.invalid/harness/bench"
	"harness.invalid/harness/processes"
)

func newBenchOptimizer() *cobra.Command {
	var o benchmarking
	var names []string
	var size string
	cmd := &cobra.Command{
		Use:   "optimizer",
		Short: "Measure updates of a model's parameters by optimizer plugins",
		Long: `Optimizer measures updates of the parameters of a model of a published size, in memory shared with the plugin, as a share of the
memory's bandwidth. The bytes counted are those that one pass over each array moves: parameters and state are read and written,
gradients are read. The gradient norm is the host's work, as in a run, and not part of it.`,
		Example: `  harness bench optimizer
  harness bench optimizer --optimizer adamw --model large --count 5`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			p, err := processes.NewSet(cmd.Context(), "", processes.Options{Output: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			var list []bench.Benchmark
			for _, name := range names {
				list = append(list, bench.Optimizer(cmd.Context(), p, name, size))
			}
			return o.measure(cmd, list)
		},
	}
	cmd.Flags().StringSliceVar(&names, "optimizer", []string{"adamw", "lamb"}, "optimizers")
	cmd.Flags().StringVar(&size, "model", "base", strings.Join(bert.SizeNames(), ", "))
	o.flags(cmd, "count", 10)
	return cmd
}
