package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness.invalid/results/index"
	"harness.invalid/results/regression"
)

func newBaseline() *cobra.Command {
	cmd := &cobra.Command{Use: "baseline", Short: "Keep runs as what later ones are held against"}
	cmd.AddCommand(newBaselineSave())
	return cmd
}

func newBaselineSave() *cobra.Command {
	var store, out, note string
	var noTimes bool
	var tolerances []string
	cmd := &cobra.Command{
		Use:   "save RUN...",
		Short: "Write a baseline from runs",
		Long: `Save sums complete runs of one recipe up in a small JSON file, to be reviewed and committed: for each seed digests of batches and of the bits of
all losses, means of losses on the way, metrics, steps to the target, and the time of the fastest step. Tolerances of metrics are the recipe's margins. What
people wrote into the file before, tolerances and waivers, stays.

A RUN is a folder, one that holds several, or the beginning of an id. Save several seeds: sampled facts, such as accuracy on another CPU, can't
be tested against one. A waiver in the file lets a fact pass until a day:

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
				out = filepath.Join("results", "baselines", b.Recipe+".json")
			}
			switch before, err := readBaselineFile(out); {
			case err == nil:
				b.Waivers = before.Waivers
				for name, v := range before.Tolerances.Metrics {
					if _, ok := b.Tolerances.Metrics[name]; ok {
						b.Tolerances.Metrics[name] = v
					}
				}
				before.Tolerances.Metrics = b.Tolerances.Metrics
				b.Tolerances = before.Tolerances
			case !errors.Is(err, fs.ErrNotExist):
				return withHint(err, "remove the file to start anew")
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d runs of recipe %s\n", out, n, b.Recipe)
			return err
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write (default results/baselines/RECIPE.json)")
	cmd.Flags().StringVar(&note, "note", "", "why it was saved, for those who read it")
	cmd.Flags().BoolVar(&noTimes, "no-times", false, "leave times out: the machine had other work, or others will check on other machines")
	cmd.Flags().StringArrayVar(&tolerances, "tolerance", nil, "change a tolerance, such as step_seconds=0.1 or squad.f1=1 (repeatable)")
	return cmd
}

func readBaselineFile(path string) (*regression.Baseline, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return regression.ReadBaseline(path, text)
}
