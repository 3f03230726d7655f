package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"harness.invalid/core/durable"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/page"
	"harness.invalid/harness/report"
	"harness.invalid/harness/series"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// pageFormat is the format of `harness report` that no other command has.
const pageFormat = "page"

func newReport() *cobra.Command {
	var out, baseline, format string
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Show runs in a page for browsers, or in a table",
		Long: `Report holds runs against each other again, without training. RUN is the folder of a run, or a folder with runs below.

The page is one file that loads nothing: the verdict first, then the table, curves, times, answers on which the arms differ, recipe and
environment. --format prints the table alone, as compare does.`,
		Example: `  harness report runs/mine -o report.html
  harness report runs/mine/ipu-adamw-seed1 runs/mine/gpu-ref-adamw-seed1 -o report.html
  harness report runs/mine --baseline gpu-ref --format latex -o table.tex`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write := func(w io.Writer, records []*series.Record) error { return page.Write(w, records) }
			if format != pageFormat {
				f, err := report.ParseFormat(format)
				if err != nil {
					return fmt.Errorf("%w, or page", err)
				}
				write = func(w io.Writer, records []*series.Record) error {
					c, err := verdict.Compare(runsOf(records))
					if err != nil {
						return err
					}
					return report.Write(w, c, report.Options{Format: f, Width: width(w), Color: color(w)})
				}
			} else if f, ok := cmd.OutOrStdout().(*os.File); ok && out == "" && term.IsTerminal(int(f.Fd())) {
				return withHint(errors.New("a page is not for a terminal"), "write it to a file with -o report.html, or print the table with --format table")
			}
			records, err := openRecords(args, baseline)
			if err != nil {
				return err
			}
			return writeTo(cmd, out, func(w io.Writer) error { return write(w, records) })
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write (default: standard output)")
	cmd.Flags().StringVar(&baseline, "baseline", "", "arm that the others are held against, BACKEND or BACKEND/OPTIMIZER (default: that of the first run)")
	cmd.Flags().StringVar(&format, "format", pageFormat, "page, "+report.Formats)
	return cmd
}

// writeTo writes a file in full or not at all; "" and - are standard output.
func writeTo(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(cmd.OutOrStdout())
	}
	return durable.WriteFile(path, write)
}

// openRecords reads the runs in and below folders, in the order in which they began, those of the baseline first.
func openRecords(folders []string, baseline string) ([]*series.Record, error) {
	var dirs []string
	for _, folder := range folders {
		found, err := results.Find(folder)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: there is no such folder", folder)
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, withHint(fmt.Errorf("%s: there is no run in the folder or below", folder), "a run is a folder with a run.json, as compare and run leave in --out")
		}
		for _, dir := range found {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	var records []*series.Record
	for _, dir := range dirs {
		run, err := results.Open(dir)
		if err != nil {
			return nil, err
		}
		r, err := series.Read(run)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	series.SortByStart(records)
	if baseline == "" {
		return records, nil
	}
	is := func(r *series.Record) bool { return r.Arm().String() == baseline || r.Backend == baseline }
	if !slices.ContainsFunc(records, is) {
		var arms, words []string
		for _, r := range records {
			if a := r.Arm().String(); !slices.Contains(arms, a) {
				arms = append(arms, a)
				words = append(words, r.Backend, a)
			}
		}
		return nil, fmt.Errorf("--baseline %s: no run is of that arm%s (there are: %s)", baseline, spelling.Hint(baseline, words), strings.Join(arms, ", "))
	}
	slices.SortStableFunc(records, func(a, b *series.Record) int {
		switch {
		case is(a) == is(b):
			return 0
		case is(a):
			return -1
		}
		return 1
	})
	return records, nil
}

func runsOf(records []*series.Record) []*results.Run {
	runs := make([]*results.Run, len(records))
	for i, r := range records {
		runs[i] = r.Run
	}
	return runs
}
