package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/recipe"
)

// shownRecipe is a recipe with all defaults.
type shownRecipe struct {
	*recipe.Recipe
	Fingerprint string `json:"fingerprint"`
}

func newRecipeShow() *cobra.Command {
	var sets []string
	var format string
	var asWritten bool
	cmd := &cobra.Command{
		Use:   "show RECIPE",
		Short: "Print a recipe with everything filled in",
		Example: `  harness recipe show quick --set phases.phase1.steps=100
  harness recipe show nvidia/large-phase1 --as-written`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: recipeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if asWritten {
				if len(sets) > 0 {
					return errors.New("--as-written shows the file as it is, and --set changes it: want one of the two")
				}
				text, err := recipe.Text(args[0])
				if err != nil {
					return err
				}
				_, err = out.Write(text)
				return err
			}
			r, err := recipe.Load(args[0], sets...)
			if err != nil {
				return err
			}
			for _, n := range r.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			switch format {
			case "yaml":
				fmt.Fprintf(out, "# fingerprint %s\n", r.Fingerprint())
				return r.Write(out)
			case "json":
				return json.NewEncoder(out).Encode(shownRecipe{r, r.Fingerprint()})
			}
			return fmt.Errorf("--format is %q, want yaml or json", format)
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "change a field (repeatable)")
	cmd.Flags().StringVar(&format, "format", "yaml", "yaml or json")
	cmd.Flags().BoolVar(&asWritten, "as-written", false, "print the file as it is, with its comments and without what it extends")
	return cmd
}
