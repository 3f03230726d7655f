package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/backend"
	"harness.invalid/core/durable"
	"harness.invalid/harness/profile"
)

func newProfile() *cobra.Command {
	var e estimation
	var out, phase string
	cmd := &cobra.Command{
		Use:   "profile --recipe R --out F",
		Short: "Write the modelled program as a trace, and its pipeline and memory as pictures",
		Long: `Profile models a step of a phase of a recipe, as estimate does, and writes three files: F, the devices' work over time as a trace that ui.perfetto.dev
and chrome://tracing show, F with the ending .svg, a picture of what lies in the memory of each device, and F with the ending -pipeline.svg, one of the
pipeline. It prints the memory as a table. Nothing is trained. Of a long step they have the first and the last cycles: those between are alike.`,
		Example: `  harness profile --backend ipu --recipe large-phase1 --out profile.json
  harness profile --backend gpu-ref --recipe large-phase1 --system dgx-h100 --out gpu.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return withHint(errors.New("--out names no file"), "harness profile --backend ipu --recipe large-phase1 --out profile.json")
			}
			jobs, err := e.jobs()
			if err != nil {
				return err
			}
			j := jobs[0]
			if phase != "" {
				var names []string
				found := false
				for _, k := range jobs {
					if names = append(names, k.phase); k.phase == phase {
						j, found = k, true
					}
				}
				if !found {
					return fmt.Errorf("--phase is %q, want %s", phase, strings.Join(names, ", "))
				}
			}
			estimator, process, err := e.start(cmd.Context())
			if err != nil {
				return err
			}
			m, err := estimator.Estimate(cmd.Context(), j.program, j.on)
			if err := errors.Join(err, process.Close()); err != nil {
				return err
			}
			return writeProfile(cmd, out, j, &m)
		},
	}
	e.register(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file for the trace; the pictures lie beside it")
	cmd.Flags().StringVar(&phase, "phase", "", "phase of the recipe (default: the first)")
	return cmd
}

func writeProfile(cmd *cobra.Command, out string, j job, m *backend.Estimate) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	stem := strings.TrimSuffix(out, filepath.Ext(out))
	if stem+".svg" == out {
		return fmt.Errorf("--out is %s, want a name for the trace, such as %s.json", out, stem)
	}
	step := profile.Step{Phase: j.phase, Accumulation: j.program.Accumulation, Estimate: m}
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{out, step.Trace}, {stem + ".svg", step.Memory}, {stem + "-pipeline.svg", step.Pipeline}} {
		if err := durable.WriteFile(f.name, f.write); err != nil {
			return err
		}
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s on %s, modelled: %s s a step in %d cycles of %s\n\n", j.phase, m.System, significant(m.StepSeconds), m.Pipeline.Cycles, duration(m.Pipeline.CycleSeconds))
	if err := writeMemory(w, m.Memory); err != nil {
		return err
	}
	for _, n := range m.Notes {
		fmt.Fprintf(w, "\n%s\n", n)
	}
	fmt.Fprintf(w, "\ntrace: %s\nmemory: %s\npipeline: %s\n", out, stem+".svg", stem+"-pipeline.svg")
	return nil
}
