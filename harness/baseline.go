package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/filename"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/hint"
	"harness.invalid/results/index"
	"harness.invalid/results/regression"
)

func newBaseline() *cobra.Command {
	cmd := &cobra.Command{Use: "baseline", Short: "Keep runs as what later ones are checked against"}
	cmd.AddCommand(newBaselineSave())
	return cmd
}

// savedBaseline is a baseline that was written.
type savedBaseline struct {
	File   string `json:"file"`
	Recipe string `json:"recipe"`
	Runs   int    `json:"runs"`
}

func newBaselineSave() *cobra.Command {
	var store, out, note, format string
	var noTimes bool
	var tolerances []string
	cmd := &cobra.Command{
		Use:   "save RUN...",
		Short: "Write a baseline from runs",
		Long: `Save summarizes complete runs of one recipe in a small JSON file, to be reviewed and committed: for each seed
digests of the batches and of the bits of all losses, mean losses along the way, metrics, steps to the target, and the
time of the fastest step. Tolerances of metrics are the recipe's margins. Tolerances and waivers that people wrote
into the file before stay.

A RUN is a folder, one that holds several, or the beginning of an id. Save several seeds: sampled facts, such as
accuracy on another CPU, can't be tested against one. A waiver in the file lets a fact pass until a day:

  "waivers": [{"fact": "ipu/adamw squad.*", "until": "2027-01-31", "reason": "new rounding, see the change of ..."}]`,
		Example: `  harness baseline save --out my-baseline.json runs/mine
  harness baseline save --out my-baseline.json --no-times --tolerance losses=0.02 --note "first" runs/mine`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			runs, err := index.OpenRuns(cmd.Context(), store, args)
			if err != nil {
				return err
			}
			b, err := regression.NewBaseline(runs, !noTimes)
			if err != nil {
				return err
			}
			b.Note = note
			if out == "" {
				if out, err = filename.Join(filepath.Join("results", "baselines"), b.Recipe+".json"); err != nil {
					return err
				}
			}
			if err := b.Inherit(out); err != nil {
				return hint.With(err, "remove the file to start anew")
			}
			if err := setTolerances(b, tolerances); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
				return err
			}
			if err := b.Save(out); err != nil {
				return err
			}
			n := 0
			for _, a := range b.Arms {
				n += len(a.Runs)
			}
			return show(cmd, format, savedBaseline{out, b.Recipe, n}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %s of recipe %s\n", out, spelling.Count(n, "run"), b.Recipe)
				return err
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write (default results/baselines/RECIPE.json)")
	cmd.Flags().StringVar(&note, "note", "", "why the baseline was saved")
	cmd.Flags().BoolVar(&noTimes, "no-times", false, "leave out times: the machine was busy, or checks will run on other machines")
	cmd.Flags().StringArrayVar(&tolerances, "tolerance", nil, "change a tolerance, such as step_seconds=0.1 or squad.f1=1 (repeatable)")
	addFormat(cmd, &format, "table")
	return cmd
}

// setTolerances changes tolerances as NAME=NUMBER says.
func setTolerances(b *regression.Baseline, list []string) error {
	for _, t := range list {
		name, value, ok := strings.Cut(t, "=")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			return fmt.Errorf("--tolerance %s: want NAME=NUMBER", t)
		}
		if err := b.Tolerances.Set(name, v); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	return nil
}
