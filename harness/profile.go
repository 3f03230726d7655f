package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/harness/estimate"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/profile"
)

func newProfile() *cobra.Command {
	var q estimate.Request
	var out, phase string
	cmd := &cobra.Command{
		Use:   "profile --recipe R --out F",
		Short: "Write the modelled program as a trace, and its pipeline and memory as pictures",
		Long: `Profile models one step of a phase, as estimate does, and writes three files: F, a trace of what the devices do over
time, for ui.perfetto.dev and chrome://tracing; F with the ending .svg, a picture of each device's memory; and F with
the ending -pipeline.svg, a picture of the pipeline. It prints the memory as a table. Nothing is trained. The pictures
of a long step show its first and last cycles: those between are alike.`,
		Example: `  harness profile --backend ipu --recipe large-phase1 --out profile.json
  harness profile --backend gpu-ref --recipe large-phase1 --system dgx-h100 --out gpu.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if out == "" {
				return hint.With(errors.New("--out names no file"), "harness profile --backend ipu --recipe large-phase1 --out profile.json")
			}
			s, err := startEstimate(cmd, q)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			j, err := s.Job(phase)
			if err != nil {
				return err
			}
			m, err := s.Model(cmd.Context(), j)
			if err != nil {
				return err
			}
			step := profile.Step{Phase: m.Phase, Accumulation: m.Program.Accumulation, Estimate: &m.Estimate}
			files, err := step.WriteFiles(out)
			if err != nil {
				return err
			}
			return tellProfile(cmd, m, files)
		},
	}
	estimateFlags(cmd.Flags(), &q)
	cmd.Flags().StringVar(&out, "out", "", "file for the trace; the pictures are written beside it")
	cmd.Flags().StringVar(&phase, "phase", "", "phase of the recipe (default: the first)")
	return cmd
}

func tellProfile(cmd *cobra.Command, m *estimate.Result, files profile.Files) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s on %s, modelled: %s s a step in %d cycles of %s\n\n", m.Phase, m.System, estimate.Significant(m.StepSeconds),
		m.Estimate.Pipeline.Cycles, estimate.Duration(m.Estimate.Pipeline.CycleSeconds))
	if err := estimate.WriteMemory(w, m.Memory); err != nil {
		return err
	}
	if err := estimate.WriteAssumptions(w, m.Assumptions); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\ntrace: %s\nmemory: %s\npipeline: %s\n", files.Trace, files.Memory, files.Pipeline)
	return err
}
