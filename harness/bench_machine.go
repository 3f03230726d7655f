package main

import (
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harness.invalid/harness/thismachine"
)

func newBenchMachine() *cobra.Command {
	var out string
	o := thismachine.Options{Models: []string{"tiny", "mini", "small", "medium", "base"}}
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "Measure this machine for harness estimate, and hold its model against measured steps",
		Long: `Machine measures the rate of multiply-adds and of memory, what PyTorch's operators take for their work and besides it,
and what a call of a plugin takes. That is the system this-machine of harness estimate --backend torch. In turn with it, it
measures training steps, which do not go into the model: they judge it, and their errors give its estimates their interval.

It needs PyTorch. Other work on the machine at the same time is in all figures.`,
		Example: `  harness bench machine
  harness bench machine --models tiny,mini,small --rounds 1 --output ./mine.yaml
  harness estimate --backend torch --system this-machine --recipe quick`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, model := range o.Models {
				if thismachine.Batches[model] == 0 {
					return fmt.Errorf("--models has %q, want some of tiny, mini, small, medium, base", model)
				}
			}
			if o.Rounds < 1 || o.Steps < 1 {
				return fmt.Errorf("--rounds is %d and --steps %d, want at least 1", o.Rounds, o.Steps)
			}
			path := out
			if path == "" {
				var err error
				if path, err = thismachine.Path(); err != nil {
					return err
				}
			}
			o.Output = cmd.ErrOrStderr()
			s, err := thismachine.Measure(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := s.Write(path); err != nil {
				return err
			}
			return tellMachine(cmd, s, path)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write (default: in the user's cache, where --system this-machine finds it)")
	cmd.Flags().StringSliceVar(&o.Models, "models", slices.Clone(o.Models), "sizes of the models whose steps judge the model")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 3, "how often operators and steps are measured in turn")
	cmd.Flags().IntVar(&o.Steps, "steps", 3, "steps of each model in a round")
	return cmd
}

// tellMachine prints what was measured and what the model says of the steps.
func tellMachine(cmd *cobra.Command, s *thismachine.System, path string) error {
	judged, err := s.Judge()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\n", s.Line())
	fmt.Fprintf(t, "multiply-adds\t%.1f GFLOPS\n", s.FMAFlops/1e9)
	fmt.Fprintf(t, "memory\t%.1f GB/s\n", s.MemoryBytesPerSecond/1e9)
	fmt.Fprintf(t, "an operator, forward and backward\t%.1f and %.1f µs\n", 1e6*s.Operator.Forward, 1e6*s.Operator.Backward)
	fmt.Fprintf(t, "a call of a plugin\t%.2f ms\n\n", 1e3*s.CallSeconds)
	fmt.Fprintln(t, "step\tmeasured ms\tmodelled ms\terror\tinterval of the modelled")
	for _, j := range judged {
		interval := "too few steps"
		if j.High > 0 {
			interval = fmt.Sprintf("%.0f to %.0f", 1e3*j.Low, 1e3*j.High)
		}
		fmt.Fprintf(t, "BERT-%s, %d x %d\t%.1f\t%.1f\t%+.0f%%\t%s\n",
			j.Model, j.Batch, j.Length, 1e3*j.Seconds, 1e3*j.Modelled, 100*(j.Modelled/j.Seconds-1), interval)
	}
	fmt.Fprintf(t, "\nwritten: %s\n", path)
	return t.Flush()
}
