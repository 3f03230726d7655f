package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/bench"
)

func newBenchKernels() *cobra.Command {
	var o benchmarking
	var filter string
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure matrix products in BERT's shapes, and passes over activations",
		Long: `Kernels measures matrix products in the shapes of BERT (NT: outputs, NN: gradients of inputs, TN: gradients of weights) as a
share of the peak of multiply-adds, and passes over a megabyte of activations on one thread as a share of a pass that only
multiplies.`,
		Example: `  harness bench kernels --filter tiny-
  GOMAXPROCS=1 harness bench kernels --filter cube --format json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []bench.Benchmark
			for _, b := range bench.Kernels() {
				if strings.Contains(b.Name, filter) {
					list = append(list, b)
				}
			}
			if len(list) == 0 {
				return fmt.Errorf("no kernel's name has %q in it", filter)
			}
			return o.measure(cmd, list)
		},
	}
	cmd.Flags().StringVar(&filter, "filter", "", "only those with this in their name")
	o.flags(cmd, "count", 0)
	return cmd
}

func newBenchMemory() *cobra.Command {
	var o benchmarking
	cmd := &cobra.Command{
		Use:     "memory",
		Short:   "Measure passes over large arrays",
		Example: `  harness bench memory`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.measure(cmd, bench.Memory()) },
	}
	o.flags(cmd, "count", 10)
	return cmd
}

func newBenchFormats() *cobra.Command {
	var o benchmarking
	cmd := &cobra.Command{
		Use:   "formats",
		Short: "Measure quantisation to the built-in number formats",
		Long: `Formats measures how fast a matrix of 64 MiB is quantised to each built-in number format, as a share of a copy of the same
matrix on the same threads. In a name that ends in /columns, blocks follow the columns.`,
		Example: `  harness bench formats --count 5
  GOMAXPROCS=1 harness bench formats --format go`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.measure(cmd, bench.Formats()) },
	}
	o.flags(cmd, "count", 10)
	return cmd
}
