package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"harness.invalid/harness/bench"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/train"
)

func newBenchRecipe() *cobra.Command {
	t := training{Experiment: experiment.Experiment{FirstSeed: 1}}
	var backends []string
	var steps int
	var format string
	cmd := &cobra.Command{
		Use:   "recipe",
		Short: "Measure what the steps of a recipe cost on one backend over another",
		Long: `Recipe trains some steps of each phase of a recipe on all backends, in turn: each batch goes to one after the other, and every
other batch in reverse. It starts from initial values, on the recipe's own data, and keeps nothing. A step is gradient, update and
commit, without the wait for its batch. The last column is the median of each step's ratio to the same step of the last backend.`,
		Example: `  harness bench recipe --backends ipu,gpu-ref
  harness bench recipe --backends ipu:fp16.32,gpu-ref:fp16,gpu-ref --recipe scratch --steps 10`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(backends) < 2 || steps < 1 {
				return errors.New("want two --backends or more, and at least 1 of --steps")
			}
			if err := tableOrJSON(format); err != nil {
				return err
			}
			if t.Arms, err = experiment.Arms(backends, nil); err != nil {
				return err
			}
			if err := t.load(); err != nil {
				return err
			}
			table := newTable(cmd.OutOrStdout(), "phase", "backend", "steps", "ms (min median max)", "over "+backends[len(backends)-1])
			err = experiment.Turns(cmd.Context(), t.Experiment, steps, func(p *train.TimedPhase) error {
				for i, b := range backends {
					r := newRecipeFigure(p, i, b)
					if format == "json" {
						if err := json.NewEncoder(cmd.OutOrStdout()).Encode(r); err != nil {
							return err
						}
					}
					table.add(r.Phase, b, fmt.Sprint(r.Steps), fmt.Sprintf("%.4g %.4g %.4g", r.MS.Min, r.MS.Median, r.MS.Max),
						fmt.Sprintf("%.2f", r.Ratio))
				}
				return nil
			})
			if err != nil || format == "json" {
				return advise(err)
			}
			return table.print()
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&backends, "backends", []string{"ipu", "gpu-ref"}, "backends, as for compare; each is held against the last")
	f.StringVar(&t.source.Recipe, "recipe", defaultRecipe, "built-in recipe (harness recipe list), or the path of a YAML file")
	f.StringArrayVar(&t.source.Set, "set", nil, "change a field of the recipe, such as defaults.global_batch=8 (repeatable)")
	f.StringArrayVar(&t.source.Data, "data", nil, "name a data file, NAME=FILE, as for compare (repeatable)")
	f.IntVar(&steps, "steps", 20, "steps of each phase that are measured, after two that are not")
	f.StringVar(&format, "format", "table", "table or json")
	return cmd
}

// recipeFigure is what the steps of a phase took on one backend.
type recipeFigure struct {
	Phase   string       `json:"phase"`
	Backend string       `json:"backend"`
	Steps   int          `json:"steps"`
	MS      bench.Spread `json:"ms"`
	Ratio   float64      `json:"ratio"` // median over the steps, to the same step of the last backend
}

func newRecipeFigure(p *train.TimedPhase, i int, backend string) recipeFigure {
	var ms, ratios []float64
	last := p.Seconds[len(p.Seconds)-1]
	for k, s := range p.Seconds[i] {
		ms, ratios = append(ms, 1e3*s), append(ratios, s/last[k])
	}
	return recipeFigure{p.Phase.Name, backend, len(ms), bench.Spread{Min: slices.Min(ms), Median: bench.Median(ms), Max: slices.Max(ms)},
		bench.Median(ratios)}
}
