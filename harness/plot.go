package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/harness/hint"
	"harness.invalid/harness/plotting"
	"harness.invalid/harness/series"
	"harness.invalid/results/verdict"
)

func newPlot() *cobra.Command {
	var o plotting.Options
	var out, baseline, against string
	var sizes []string
	for _, s := range plotting.Sizes {
		sizes = append(sizes, s.Name+" ("+s.Doc+")")
	}
	cmd := &cobra.Command{
		Use:   "plot RUN... -o FILE",
		Short: "Draw curves of runs as SVG, PNG or PDF",
		Long: `Plot draws a quantity that runs recorded: a curve for each arm, the mean over its seeds, with a band of one
standard deviation to each side. RUN is the folder of a run, or a folder with runs below. The ending of the file says
which format it gets. The names of the phases stand above the curves and the arms below; a note there says which arms
coincide.`,
		Example: `  harness plot runs/mine -o loss.svg
  harness plot runs/mine --quantity f1 --phase squad --against measured-seconds -o f1.pdf
  harness plot runs/mine --for column -o loss.pdf
  harness plot runs/mine --quantity gradient_norm --log --smooth 20 --for slide --dpi 150 -o norm.png
  harness plot runs/seen --quantity flushed --operand forward.input -o flushed.svg`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return hint.With(errors.New("-o names no file"), "its ending says the format: -o loss.svg, loss.png or loss.pdf")
			}
			o.Format = strings.ToLower(strings.TrimPrefix(filepath.Ext(out), "."))
			if !slices.Contains(plotting.Formats, o.Format) {
				return fmt.Errorf("%s ends in %q, want .%s", out, filepath.Ext(out), strings.Join(plotting.Formats, ", ."))
			}
			if err := inRange(cmd.Flags(), "width", "height", "font-size", "dpi"); err != nil {
				return err
			}
			if o.Smooth < 0 {
				return fmt.Errorf("--smooth is %d, want 0 or more", o.Smooth)
			}
			var err error
			if o.Against, err = series.ParseAxis(against); err != nil {
				return fmt.Errorf("--against: %w", err)
			}
			if _, ok := series.EffectNamed(o.Quantity); ok {
				return plotFormats(cmd, args, out, baseline, o)
			}
			if o.Operand != "" {
				return fmt.Errorf("--operand is of what number formats do: with --quantity %s", strings.Join(effectNames(), ", "))
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
			`"evaluated loss" where both are recorded; or `+strings.Join(effectNames(), ", "))
	f.StringVar(&o.Operand, "operand", "", "operand of products, such as forward.weight (default: the worst of each operator)")
	f.StringVar(&o.Phase, "phase", "", "one phase of the recipe (default: all)")
	f.StringVar(&against, "against", string(series.Steps), "steps, samples, measured-seconds or modelled-seconds")
	f.BoolVar(&o.Log, "log", false, "logarithmic axis of values")
	f.IntVar(&o.Smooth, "smooth", 0, "average each run over this many steps")
	f.BoolVar(&o.EachRun, "each-run", false, "a line for each run instead of means and bands")
	f.StringVar(&o.Title, "title", "", "title above the picture")
	f.StringVar(&o.For, "for", plotting.Sizes[0].Name, "size of picture and letters: "+strings.Join(sizes, "; "))
	f.Float64Var(&o.WidthInch, "width", 0, "inches (default: those of --for)")
	f.Float64Var(&o.HeightInch, "height", 0, "inches (default: those of --for, and more for a long legend)")
	f.Float64Var(&o.FontPoints, "font-size", 0, "points of the letters, with which lines grow (default: those of --for)")
	f.IntVar(&o.DPI, "dpi", plotting.DefaultDPI, "pixels an inch of a PNG, which states them")
	f.StringVar(&baseline, "baseline", "", "arm that comes first (default: that of the first run)")
	return cmd
}

// most are the largest values of the flags of plot: a picture of 100 inches with 1200 pixels an inch is no longer one.
var most = map[string]float64{"width": 40, "height": 40, "font-size": 72, "dpi": 1200}

// inRange checks flags that were given against what they may be.
func inRange(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		flag := f.Lookup(name)
		if v, err := strconv.ParseFloat(flag.Value.String(), 64); flag.Changed && (err != nil || !(v > 0) || v > most[name]) {
			return fmt.Errorf("--%s is %s, want more than 0 and at most %g", name, flag.Value, most[name])
		}
	}
	return nil
}
