package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/hint"
)

// listedRecipe is a built-in recipe.
type listedRecipe struct {
	Name   string `json:"name"`
	Doc    string `json:"doc"`
	Source string `json:"source"`
}

func newRecipeList() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list [TEXT]",
		Short: "List the built-in recipes, or those whose names contain a text",
		Long: `List names the built-in recipes. Recipes such as large-phase1 are for both machines; those in folders are
what a published system uses, such as graphcore/popart/large-phase1, nvidia/large-phase1 or google/base-phase1.`,
		Example: `  harness recipe list
  harness recipe list squad
  harness recipe list nvidia/ --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: recipeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" && format != "names" {
				return fmt.Errorf("--format is %q, want text, names or json", format)
			}
			list := []listedRecipe{}
			for _, name := range recipe.Names() {
				if len(args) == 1 && !strings.Contains(name, args[0]) {
					continue
				}
				r, err := recipe.Load(name)
				if err != nil {
					return err
				}
				list = append(list, listedRecipe{name, r.Doc, r.Source})
			}
			if len(list) == 0 {
				return hint.With(fmt.Errorf("no built-in recipe has %q in its name", args[0]), "harness recipe list")
			}
			out := cmd.OutOrStdout()
			switch format {
			case "json":
				return json.NewEncoder(out).Encode(list)
			case "names":
				for _, e := range list {
					fmt.Fprintln(out, e.Name)
				}
				return nil
			}
			for _, e := range list {
				if err := printProse(out, fmt.Sprintf("%s\n%s\n", e.Name, indent(e.Doc))); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, names or json")
	return cmd
}
