package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/durable"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/page"
	"harness.invalid/harness/report"
	"harness.invalid/harness/series"
	"harness.invalid/results/verdict"
)

// pageFormat is the format of `harness report` that no other command has.
const pageFormat = "page"

func newReport() *cobra.Command {
	var out, baseline, format string
	var modelled bool
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Show runs in a page for browsers, or in a table",
		Long: `Report compares runs again, without training. RUN is the folder of a run, or a folder with runs below.

The page is one file that loads nothing: the verdict first, then the table, curves, times, answers on which the arms
differ, recipe and environment. --format prints the table alone, as compare does.`,
		Example: `  harness report runs/mine -o report.html
  harness report runs/mine/ipu-adamw-seed1 runs/mine/gpu-ref-adamw-seed1 -o report.html
  harness report runs/mine --baseline gpu-ref --format latex -o table.tex`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write := func(w io.Writer) error {
				records, err := series.OpenMeans(args, baseline, page.MostPoints)
				if err != nil {
					return err
				}
				return page.Write(w, records, page.Options{Modelled: modelled})
			}
			format, err := formatFor(out, format, cmd.Flags().Changed("format"))
			if err != nil {
				return err
			}
			if format != pageFormat {
				f, err := report.ParseFormat(format)
				if err != nil {
					return fmt.Errorf("%w, or page", err)
				}
				write = func(w io.Writer) error {
					runs, err := series.OpenRuns(args, baseline)
					if err != nil {
						return err
					}
					c, err := verdict.Compare(runs)
					if err != nil {
						return err
					}
					return report.Write(w, c, report.Options{Format: f, Width: width(w), Color: color(w), Modelled: modelled})
				}
			} else if out == "" && terminalOf(cmd.OutOrStdout()) != nil {
				return hint.With(errors.New("a page is not for a terminal"),
					"write it to a file with -o report.html, or print the table with --format table")
			}
			return writeTo(cmd, out, write)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write (default: standard output)")
	cmd.Flags().StringVar(&baseline, "baseline", "",
		"arm that the others are compared with, BACKEND or BACKEND/OPTIMIZER (default: that of the first run)")
	cmd.Flags().BoolVar(&modelled, "modelled", false, modelledUsage)
	cmd.Flags().StringVar(&format, "format", pageFormat, "page, "+report.Formats+"; where it is not given, the ending of the file says which")
	return cmd
}

// endings are the formats that the ending of a file says, where --format does not.
var endings = map[string]string{
	"": pageFormat, ".html": pageFormat, ".htm": pageFormat, ".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json",
	".txt": "table",
}

// formatFor is the format of a file: what --format says, or else its ending.
func formatFor(path, format string, given bool) (string, error) {
	if given {
		return format, nil
	}
	ending := strings.ToLower(filepath.Ext(path))
	f, ok := endings[ending]
	if !ok {
		return "", hint.With(fmt.Errorf("%s: no format has the ending %s, want one of %s", path, ending,
			strings.Join(slices.Sorted(maps.Keys(endings))[1:], ", ")), "--format page, or another one, writes it under any name")
	}
	return f, nil
}

// writeTo writes a file in full or not at all; "" and - are standard output.
func writeTo(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(cmd.OutOrStdout())
	}
	return durable.WriteFile(path, write)
}
