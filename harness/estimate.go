package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/estimate"
)

func newEstimate() *cobra.Command {
	var q estimate.Request
	var format string
	var sweep, systems bool
	cmd := &cobra.Command{
		Use:   "estimate",
		Short: "Model time and memory of a recipe on a named system, without training",
		Long: `Estimate models one step of each phase of a recipe on a system: sequences per second, where the time goes, and
the memory that every device needs and has. Nothing is trained. Flags override the recipe; without --recipe they
describe what runs.

--systems lists the systems that a backend models. docs/machines.md says how well those of the built-in backends predict
published throughput, and how to describe another system.

The exit code is 1 when the program does not fit into memory, and 2 when it could not run at all.`,
		Example: `  harness estimate --backend ipu --system bow-pod16 --recipe large-phase1
  harness estimate --backend ipu --system ipu-pod16 --model large --micro-batch 8 --accumulation 2048 --replicas 4 --layers-per-ipu 3,7,7,7
  harness estimate --backend gpu-ref --system dgx-a100-80gb --model large --seq 512 --micro-batch 32 --accumulation 128 --precision fp16
  harness estimate --backend ipu --system bow-pod64 --recipe large-phase1 --sweep
  harness estimate --backend gpu-ref --systems`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if formats := []string{"table", "json"}; !slices.Contains(formats, format) {
				return fmt.Errorf("--format is %q, want table or json%s", format, spelling.Hint(format, formats))
			}
			s, err := startEstimate(cmd, q)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			if systems {
				return tellSystems(cmd, s)
			}
			if sweep {
				return tellSweep(cmd, s, format)
			}
			return tellEstimate(cmd, s, format)
		},
	}
	estimateFlags(cmd.Flags(), &q)
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	cmd.Flags().BoolVar(&sweep, "sweep", false,
		"vary replicas, micro-batch, accumulation and what the backend varies, and mark the fastest that fits")
	cmd.Flags().BoolVar(&systems, "systems", false, "list the systems that the backend models")
	return cmd
}

// startEstimate starts what the flags of estimate and profile ask for.
func startEstimate(cmd *cobra.Command, q estimate.Request) (*estimate.Session, error) {
	if err := checkEstimate(cmd.Flags(), &q); err != nil {
		return nil, err
	}
	e, err := estimate.New(q)
	if err != nil {
		return nil, err
	}
	return e.Start(cmd.Context())
}

func tellSystems(cmd *cobra.Command, s *estimate.Session) error {
	list, err := s.Systems(cmd.Context())
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, system := range list {
		fmt.Fprintf(t, "%s\t%s\n", system.Name, system.Doc)
	}
	return t.Flush()
}

func tellSweep(cmd *cobra.Command, s *estimate.Session, format string) error {
	points, err := s.Sweep(cmd.Context())
	if err != nil {
		return err
	}
	if format == "json" {
		return s.WriteSweepJSON(cmd.OutOrStdout(), points)
	}
	return s.WriteSweepTable(cmd.OutOrStdout(), points)
}

// tellEstimate prints all phases, also those that do not fit, and reports the latter on standard error.
func tellEstimate(cmd *cobra.Command, s *estimate.Session, format string) error {
	list, err := s.ModelAll(cmd.Context())
	if err != nil {
		return err
	}
	write := func(w io.Writer, list []*estimate.Result) error {
		var text strings.Builder
		if err := s.WriteTable(&text, list); err != nil {
			return err
		}
		return printProse(w, text.String())
	}
	if format == "json" {
		write = s.WriteJSON
	}
	if err := write(cmd.OutOrStdout(), list); err != nil {
		return err
	}
	var failed error
	for _, m := range list {
		if err := m.Err(); err != nil {
			failed = errFailed
			fmt.Fprintf(cmd.ErrOrStderr(), "harness: phase %s: %v\n", m.Phase, err)
			if h := m.Hint(); h != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "hint: %s\n", h)
			}
		}
	}
	return failed
}
