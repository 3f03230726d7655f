package main

import (
	"github.com/spf13/cobra"

	"harness.invalid/core/recipe"
)

func newRecipe() *cobra.Command {
	cmd := &cobra.Command{Use: "recipe", Short: "List, show, compare, check, import and shrink recipes"}
	cmd.AddCommand(newRecipeList(), newRecipeShow(), newRecipeDiff(), newRecipeValidate(), newRecipeImport(), newRecipeShrink(),
		newRecipeSchema())
	return cmd
}

func newRecipeSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of recipes, for editors that check YAML by it",
		Example: `  harness recipe schema > recipe.schema.json
  # and in a recipe's first line: # yaml-language-server: $schema=recipe.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(recipe.Schema())
			return err
		},
	}
}
