package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

func newRunsDiff() *cobra.Command {
	var store, format string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show how two runs differ: recipe, environment, plugins, then results",
		Long: `Diff goes from cause to effect: identity, recipe, machine and program, plugins with their hashes, and then
results, with the first step at which the bits of a loss differ. It leaves out fields that are equal.`,
		Example: `  harness runs diff runs/mine/ipu-adamw-seed1 runs/mine/gpu-ref-adamw-seed1`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			a, err := index.OpenRun(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			b, err := index.OpenRun(cmd.Context(), store, args[1])
			if err != nil {
				return err
			}
			d, err := results.Diff(a, b)
			if err != nil {
				return err
			}
			if f == report.JSON {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return printSheet(cmd, diffSheet(d), f)
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}

func diffSheet(d *results.RunDiff) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "field"}, {Name: d.A, Key: "a"}, {Name: d.B, Key: "b"}}}
	section := func(name string, fields []results.FieldDiff) {
		if len(fields) == 0 {
			s.Notes = append(s.Notes, name+": the same.")
			return
		}
		s.Rows = append(s.Rows, report.Row{{Text: name, Mark: report.Strong}, {}, {}})
		for _, f := range fields {
			s.Rows = append(s.Rows, report.Texts("  "+f.Field, orDash(f.A), orDash(f.B)))
		}
	}
	section("identity", d.Identity)
	var recipes []results.FieldDiff
	for _, r := range d.Recipe {
		recipes = append(recipes, results.FieldDiff{Field: r.Path, A: r.A, B: r.B})
	}
	section("recipe", recipes)
	section("environment", d.Environment)
	section("plugins", d.Plugins)
	section("results", d.Results)
	switch p := d.Parting; {
	case p == nil && d.Steps == 0:
		s.Notes = append(s.Notes, "The runs have no steps to compare.")
	case p == nil:
		s.Notes = append(s.Notes, fmt.Sprintf("All %d steps that both took have the same bits.", d.Steps))
	default:
		s.Notes = append(s.Notes, fmt.Sprintf("They part at %s step %d: %s %.17g, %.17g. The %d steps before have the same bits.",
			p.Phase, p.Step, p.Quantity, float64(p.A), float64(p.B), d.Steps))
	}
	return s
}
