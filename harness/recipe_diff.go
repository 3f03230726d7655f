package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/report"
)

func newRecipeDiff() *cobra.Command {
	var format string
	var sets []string
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show the fields in which two recipes differ",
		Long: `Diff compares two recipes field by field, with all defaults filled in. Runs of recipes that differ in a field
of the fingerprint can't be compared. Other fields document the recipe, set margins of verdicts, or belong to one
backend alone. With --exit-code it exits with 1 when the recipes differ, as git diff does.`,
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
			sheet := recipeDiffSheet(args[0], args[1], differences)
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

// recipeDiffSheet has a row for each field that differs.
func recipeDiffSheet(a, b string, differences []recipe.Difference) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{
		{Name: "field", Key: "path"}, {Name: a, Key: "a"}, {Name: b, Key: "b"}, {Name: "fingerprint", Key: "identity"},
	}}
	identity := 0
	for _, d := range differences {
		mark := ""
		if d.Identity {
			mark = "yes"
			identity++
		}
		s.Rows = append(s.Rows, report.Row{
			{Text: d.Path}, {Text: d.A, Value: raw(d.A)}, {Text: d.B, Value: raw(d.B)}, {Text: mark, Value: d.Identity},
		})
	}
	switch {
	case len(differences) == 0:
		s.Notes = []string{"The recipes are the same."}
	case identity == 0:
		s.Notes = []string{"The fingerprints are the same: runs can be compared."}
	default:
		s.Notes = []string{fmt.Sprintf("%d of %d differences are in the fingerprint: runs can't be compared.", identity, len(differences))}
	}
	return s
}

// raw is a value of a recipe as JSON has it; null where there is none.
func raw(text string) any {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}
