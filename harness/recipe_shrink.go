package main

import (
	"io"

	"github.com/spf13/cobra"

	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/shrink"
)

func newRecipeShrink() *cobra.Command {
	var s shrink.Settings
	var out string
	var sets []string
	cmd := &cobra.Command{
		Use:   "shrink RECIPE",
		Short: "Scale a published recipe down to this machine, and keep what makes it that recipe",
		Long: `Shrink writes a recipe with fewer sequences a step, fewer steps, a narrower model of fewer layers, shorter
sequences and generated data. It keeps the IPUs of the pipeline with one layer each, the schedule, how gradients are
accumulated and reduced, recomputation, sharding, number format, loss scales, optimizer, packing, and the highest learning
rate; of more than two replicas it keeps two. The doc of the written recipe says what was scaled, from what to what.
The number of sequences must fill the pipeline of each replica.`,
		Example: `  harness recipe shrink graphcore/popart/large-phase1 --sequences 64 --out small.yaml
  harness recipe shrink nvidia/large --sequences 32 --steps 100
  harness recipe shrink squad-base --set phases.squad.optimizer.options.weight_decay=0 --out squad.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: recipeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := recipe.Load(args[0], sets...)
			if err != nil {
				return err
			}
			small, err := shrink.Recipe(r, s)
			if err != nil {
				return err
			}
			if out == "" {
				return small.Write(cmd.OutOrStdout())
			}
			return durable.WriteFile(out, func(w io.Writer) error { return small.Write(w) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Sequences, "sequences", 64, "sequences of a step; rows where sequences are packed")
	f.IntVar(&s.Steps, "steps", 400, "steps of the longest phase; the others keep their share")
	f.StringVar(&out, "out", "", "file to write (default standard output)")
	f.StringArrayVar(&sets, "set", nil, "change a field of the recipe before it is scaled (repeatable)")
	return cmd
}
