package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/hint"
	"harness.invalid/harness/plotting"
	"harness.invalid/harness/series"
	"harness.invalid/results/verdict"
)

func newPlot() *cobra.Command {
	var o plotting.Options
	var out, baseline, against string
	cmd := &cobra.Command{
		Use:   "plot RUN... -o FILE",
		Short: "Draw curves of runs as SVG, PNG or PDF",
		Long: `Plot draws a quantity that runs recorded: a curve for each arm, the mean over its seeds, with a band of one
standard deviation to each side. RUN is the folder of a run, or a folder with runs below. The ending of the file says
which format it gets.`,
		Example: `  harness plot runs/mine -o loss.svg
  harness plot runs/mine --quantity f1 --phase squad --against measured-seconds -o f1.pdf
  harness plot runs/mine --quantity gradient_norm --log --smooth 20 -o norm.png`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return hint.With(errors.New("-o names no file"), "its ending says the format: -o loss.svg, loss.png or loss.pdf")
			}
			o.Format = strings.ToLower(strings.TrimPrefix(filepath.Ext(out), "."))
			if !slices.Contains(plotting.Formats, o.Format) {
				return fmt.Errorf("%s ends in %q, want .%s", out, filepath.Ext(out), strings.Join(plotting.Formats, ", ."))
			}
			if o.WidthInch <= 0 || o.HeightInch <= 0 || o.WidthInch > 100 || o.HeightInch > 100 {
				return fmt.Errorf("the picture is %g by %g inches, want more than 0 and at most 100", o.WidthInch, o.HeightInch)
			}
			if o.Smooth < 0 {
				return fmt.Errorf("--smooth is %d, want 0 or more", o.Smooth)
			}
			var err error
			if o.Against, err = series.ParseAxis(against); err != nil {
				return fmt.Errorf("--against: %w", err)
			}
			records, err := series.Open(args, baseline)
			if err != nil {
				return err
			}
			if _, err := verdict.Compare(series.Runs(records)); err != nil {
				return err // curves of different experiments do not belong into one picture
			}
			return writeTo(cmd, out, func(w io.Writer) error { return plotting.Write(w, records, o) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "file to write, ending in .svg, .png or .pdf")
	f.StringVar(&o.Quantity, "quantity", "loss",
		`metric, gradient_norm, loss_scale, learning_rate, measured_step_seconds or modelled_step_seconds; `+
			`"evaluated loss" where both are recorded`)
	f.StringVar(&o.Phase, "phase", "", "one phase of the recipe (default: all)")
	f.StringVar(&against, "against", string(series.Steps), "steps, samples, measured-seconds or modelled-seconds")
	f.BoolVar(&o.Log, "log", false, "logarithmic axis of values")
	f.IntVar(&o.Smooth, "smooth", 0, "average each run over this many steps")
	f.BoolVar(&o.EachRun, "each-run", false, "a line for each run instead of means and bands")
	f.StringVar(&o.Title, "title", "", "title above the picture")
	f.Float64Var(&o.WidthInch, "width", 6, "inches; a PNG has 96 pixels an inch")
	f.Float64Var(&o.HeightInch, "height", 3.7, "inches")
	f.StringVar(&baseline, "baseline", "", "arm that comes first (default: that of the first run)")
	return cmd
}
