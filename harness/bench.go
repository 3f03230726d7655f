package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/bench"
)

// benchmarking is what all bench commands share.
type benchmarking struct {
	format string
	count  int
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast steps, kernels, optimizers and the tokenizer are on this machine",
		Long: `Bench measures the parts of a run. Every figure is taken in turn with the chip's own limit for that kind of work
(multiply-adds on registers, or a pass over memory), and %peak is the median share of it. All figures are measured, none is
modelled.

The cores of a virtual machine may serve others at the same time. A probe of integer instructions before and after each sample
shows when they do: "alone" is the median share, and the number, of the samples in which the probe was as fast as in the best one.

GOMAXPROCS sets the number of threads, and HARNESS_CPU=generic|avx2|avx512|avx512bf16|amx sets the level of the kernels.
--format go prints what benchstat reads.`,
		Example: `  harness bench step --model mini --backend gpu-ref --seq 128 --batch 32 --steps 10
  harness bench step --model tiny --backend ipu --format json
  harness bench recipe --backends ipu,gpu-ref
  harness bench kernels --filter base-
  harness bench optimizer --optimizer lamb --model base
  harness bench memory
  harness bench formats
  harness bench inference --scenario offline
  harness bench machine`,
	}
	cmd.AddCommand(newBenchStep(), newBenchKernels(), newBenchOptimizer(), newBenchTokenizer(), newBenchMemory(), newBenchFormats(),
		newBenchMachine(), newBenchInference(), newBenchRecipe())
	return cmd
}

func (o *benchmarking) flags(cmd *cobra.Command, count string, n int) {
	cmd.Flags().StringVar(&o.format, "format", "table", "table, json or go")
	cmd.Flags().IntVar(&o.count, count, n, "how often each is measured, 0: for about a second")
	cmd.Args = cobra.NoArgs
}

// measure runs benchmarks one after the other and prints each as soon as it is known, except in a table.
func (o *benchmarking) measure(cmd *cobra.Command, list []bench.Benchmark) error {
	if o.count < 0 || o.count > 1_000_000 {
		return fmt.Errorf("count is %d, want 0 to 1000000", o.count)
	}
	if formats := []string{"table", "json", "go"}; !slices.Contains(formats, o.format) {
		return fmt.Errorf("format is %q, want table, json or go%s", o.format, spelling.Hint(o.format, formats))
	}
	out := cmd.OutOrStdout()
	var figures []bench.Figure
	for _, b := range list {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		f, err := b.Measure(o.count)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		switch o.format {
		case "json":
			err = json.NewEncoder(out).Encode(f)
		case "go":
			_, err = fmt.Fprintln(out, f.Line())
		default:
			figures = append(figures, f)
		}
		if err != nil {
			return err
		}
	}
	if o.format != "table" {
		return nil
	}
	return printFigures(out, figures)
}
