package main

import (
	"github.com/spf13/cobra"

	"harness.invalid/core/plugin"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/extension"
)

// completeTraining has the shell complete those flags of a command that trains that take one of a few words.
func completeTraining(cmd *cobra.Command) {
	backends := func() []string { return catalog.Names(plugin.Backend) }
	optimizers := func() []string { return catalog.Names(plugin.Optimizer) }
	for flag, list := range map[string]func() []string{
		"transport": func() []string { return []string{"memory", "stream"} },
		"backend":   backends, "backends": backends, "optimizer": optimizers, "optimizers": optimizers,
	} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return list(), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
	_ = cmd.RegisterFlagCompletionFunc("recipe", recipeNames)
}

// recipeNames completes the names of recipes; files come from the shell.
func recipeNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return recipe.Names(), cobra.ShellCompDirectiveDefault
}

// completePlugin completes [KIND] NAME.
func completePlugin(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, k := range extension.Kinds {
		switch {
		case len(args) == 0:
			words = append(words, string(k))
			words = append(words, catalog.Names(k)...)
		case len(args) == 1 && args[0] == string(k):
			words = catalog.Names(k)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
