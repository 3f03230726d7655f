package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/report"
)

func newRecipe() *cobra.Command {
	cmd := &cobra.Command{Use: "recipe", Short: "List, show, compare, check and import recipes"}
	cmd.AddCommand(newRecipeList(), newRecipeShow(), newRecipeDiff(), newRecipeValidate(), newRecipeImport(), newRecipeSchema())
	return cmd
}

// recipeNames completes the names of recipes; files come from the shell.
func recipeNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return recipe.Names(), cobra.ShellCompDirectiveDefault
}

func newRecipeList() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list [TEXT]",
		Short: "List the built-in recipes, or those whose name has a text in it",
		Long: `List names the recipes that are built in. large-phase1 and its like are for both machines; those in folders are what a published system has, such
as graphcore/popart/large-phase1, nvidia/large-phase1 or google/base-phase1.`,
		Example: `  harness recipe list
  harness recipe list squad
  harness recipe list nvidia/ --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: recipeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" && format != "names" {
				return fmt.Errorf("--format is %q, want text, names or json", format)
			}
			type entry struct {
				Name   string `json:"name"`
				Doc    string `json:"doc"`
				Source string `json:"source"`
			}
			list := []entry{}
			for _, name := range recipe.Names() {
				if len(args) == 1 && !strings.Contains(name, args[0]) {
					continue
				}
				r, err := recipe.Load(name)
				if err != nil {
					return err
				}
				list = append(list, entry{name, r.Doc, r.Source})
			}
			if len(list) == 0 {
				return withHint(fmt.Errorf("no built-in recipe has %q in its name", args[0]), "harness recipe list")
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
				fmt.Fprintf(out, "%s\n%s\n", e.Name, indent(e.Doc))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, names or json")
	return cmd
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
			switch format {
			case "yaml":
				fmt.Fprintf(out, "# fingerprint %s\n", r.Fingerprint())
				return r.Write(out)
			case "json":
				return json.NewEncoder(out).Encode(struct {
					*recipe.Recipe
					Fingerprint string `json:"fingerprint"`
				}{r, r.Fingerprint()})
			}
			return fmt.Errorf("--format is %q, want yaml or json", format)
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "change a field (repeatable)")
	cmd.Flags().StringVar(&format, "format", "yaml", "yaml or json")
	cmd.Flags().BoolVar(&asWritten, "as-written", false, "print the file as it is, with its comments and without what it extends")
	return cmd
}

func newRecipeDiff() *cobra.Command {
	var format string
	var sets []string
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Tell in which fields two recipes differ",
		Long: `Diff compares two recipes field by field, after all defaults are filled in. Runs of recipes that differ in a field of the fingerprint can't be
compared; other fields belong to one backend alone, explain, or judge. With --exit-code it exits with 1 when the recipes differ, as git diff does.`,
		Example: `  harness recipe diff graphcore/popart/large-phase1 nvidia/large-phase1
  harness recipe diff quick my.yaml --set phases.phase1.steps=700 --exit-code`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: recipeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			a, err := recipe.Load(args[0], sets...)
			if err != nil {
				return err
			}
			b, err := recipe.Load(args[1], sets...)
			if err != nil {
				return err
			}
			differences := recipe.Diff(a, b)
			sheet := &report.Sheet{Columns: []report.Column{
				{Name: "field", Key: "path"}, {Name: args[0], Key: "a"}, {Name: args[1], Key: "b"}, {Name: "fingerprint", Key: "identity"}}}
			identity := 0
			for _, d := range differences {
				mark := ""
				if d.Identity {
					mark = "yes"
					identity++
				}
				sheet.Rows = append(sheet.Rows, report.Row{{Text: d.Path}, {Text: d.A, Value: raw(d.A)}, {Text: d.B, Value: raw(d.B)}, {Text: mark, Value: d.Identity}})
			}
			switch {
			case len(differences) == 0:
				sheet.Notes = []string{"The recipes are the same."}
			case identity == 0:
				sheet.Notes = []string{"The fingerprints are the same: runs can be compared."}
			default:
				sheet.Notes = []string{fmt.Sprintf("%d of %d differences are in the fingerprint: runs can't be compared.", identity, len(differences))}
			}
			if len(sheet.Rows) == 0 && (f == report.Table || f == report.Markdown) {
				fmt.Fprintln(cmd.OutOrStdout(), sheet.Notes[0])
			} else if err := report.WriteSheet(cmd.OutOrStdout(), sheet, report.Options{Format: f, Width: width(cmd.OutOrStdout())}); err != nil {
				return err
			}
			if exitCode && len(differences) > 0 {
				return errFailed
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "change a field of both (repeatable)")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 when the recipes differ")
	return cmd
}

// raw is a value of a recipe as JSON has it; null where there is none.
func raw(text string) any {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

func newRecipeValidate() *cobra.Command {
	var sets []string
	var alone bool
	cmd := &cobra.Command{
		Use:   "validate RECIPE...",
		Short: "Check recipes to the last field",
		Long: `Validate reads recipes as a run would, and asks the backends and optimizers that they name whether they take the precisions and options given. It
prints each with its fingerprint, or what is wrong with it and where. It exits with 1 when one of them is not valid.`,
		Example: `  harness recipe validate my.yaml
  harness recipe validate large-phase1 squad-large`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: recipeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			pool := processes.NewPool(processes.Options{})
			bad := false
			for _, ref := range args {
				r, err := recipe.Load(ref, sets...)
				if errors.Is(err, fs.ErrNotExist) {
					return err
				}
				var notes []string
				if err == nil && !alone {
					notes, err = experiment.Validate(cmd.Context(), pool, r)
				}
				if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: not valid: %v\n", ref, err)
					bad = true
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: valid, fingerprint %s\n", ref, r.Fingerprint())
				for _, n := range notes {
					fmt.Fprintf(cmd.OutOrStdout(), "    %s\n", n)
				}
			}
			if bad {
				return errFailed
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "change a field (repeatable)")
	cmd.Flags().BoolVar(&alone, "no-plugins", false, "start no plugin to ask for its options")
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
			return write(cmd.OutOrStdout(), recipe.Schema())
		},
	}
}

func write(w io.Writer, text []byte) error {
	_, err := w.Write(text)
	return err
}
