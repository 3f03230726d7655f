package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/recipe"
)

func newRecipe() *cobra.Command {
	cmd := &cobra.Command{Use: "recipe", Short: "List and show recipes"}
	var sets []string
	show := &cobra.Command{
		Use:     "show RECIPE",
		Short:   "Print a recipe with everything filled in",
		Example: `  harness recipe show quick --set phases.phase1.steps=100`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return recipe.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := recipe.Load(args[0], sets...)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "# fingerprint %s\n", r.Fingerprint())
			return r.Write(cmd.OutOrStdout())
		},
	}
	show.Flags().StringArrayVar(&sets, "set", nil, "change a field (repeatable)")
	cmd.AddCommand(show, &cobra.Command{
		Use:   "list",
		Short: "List the built-in recipes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range recipe.Names() {
				r, err := recipe.Load(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", name, indent(r.Doc))
			}
			return nil
		},
	})
	return cmd
}
