package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/processes"
)

// validated says whether a recipe is valid.
type validated struct {
	Recipe      string   `json:"recipe"`
	Valid       bool     `json:"valid"`
	Fingerprint string   `json:"fingerprint,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	Fault       string   `json:"fault,omitempty"`
}

func newRecipeValidate() *cobra.Command {
	var sets []string
	var alone bool
	var format string
	cmd := &cobra.Command{
		Use:   "validate RECIPE...",
		Short: "Check recipes down to the last field",
		Long: `Validate reads recipes as a run would, and asks the backends and optimizers that they name whether they take
the precisions and options. It prints each recipe with its fingerprint, or what is wrong with it and where. It exits
with 1 when one of them is not valid.`,
		Example: `  harness recipe validate my.yaml
  harness recipe validate large-phase1 squad-large`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: recipeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			pool := processes.NewPool(processes.Options{})
			var all []validated
			bad := false
			for _, ref := range args {
				r, err := recipe.Load(ref, sets...)
				if errors.Is(err, fs.ErrNotExist) {
					return err
				}
				var notes []string
				if err == nil {
					notes = r.Notes
				}
				if err == nil && !alone {
					var more []string
					more, err = experiment.Validate(cmd.Context(), pool, r)
					notes = append(notes, more...)
				}
				if err != nil {
					all = append(all, validated{Recipe: ref, Fault: err.Error()})
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: not valid: %v\n", ref, err)
					bad = true
					continue
				}
				all = append(all, validated{ref, true, r.Fingerprint(), notes, ""})
				if format == "json" {
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: valid, fingerprint %s\n", ref, r.Fingerprint())
				for _, n := range notes {
					fmt.Fprintf(cmd.OutOrStdout(), "    %s\n", n)
				}
			}
			if format == "json" {
				if err := writeJSON(cmd.OutOrStdout(), all); err != nil {
					return err
				}
			}
			if bad {
				return errFailed
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "change a field (repeatable)")
	cmd.Flags().BoolVar(&alone, "no-plugins", false, "do not start plugins to check their options")
	addFormat(cmd, &format, "table")
	return cmd
}
