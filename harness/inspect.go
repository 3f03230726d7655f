package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/harness/conversion"
)

func newInspect() *cobra.Command {
	var format string
	var statistics, quiet bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "List the tensors of a file: names, types, shapes, statistics",
		Long: `Inspect lists the tensors of a file of safetensors, of torch.save (pytorch_model.bin, either form) or of a TensorFlow
checkpoint, or of a folder with one of them, under the names that they have there; of a run it takes the model in its
newest checkpoint. It maps the file rather than loading it, and reads values once, a piece at a time, for their
statistics; with --statistics=false not at all. Values that are not finite are counted, and left out of the other
statistics.`,
		Example: `  harness inspect bert-tiny/model.safetensors
  harness inspect uncased_L-2_H-128_A-2/bert_model.ckpt --statistics=false
  harness inspect pytorch_model.bin --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := tableOrJSON(format); err != nil {
				return err
			}
			f, err := conversion.OpenTensors(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			in := weights.Inspect(f)
			if statistics {
				show := newProgress(cmd.ErrOrStderr(), quiet)
				observe, done := show.task("statistics")
				err := in.Measure(cmd.Context(), observe)
				done()
				show.close()
				if err != nil {
					return err
				}
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), in)
			}
			return tellInspection(cmd.OutOrStdout(), in, statistics)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "table", "table or json")
	f.BoolVar(&statistics, "statistics", true, "read the values for their statistics")
	f.BoolVar(&quiet, "quiet", false, "no progress")
	return cmd
}

func tellInspection(out io.Writer, in *weights.Inspection, statistics bool) error {
	fmt.Fprintf(out, "%s: %s, %d tensors, %d elements, %d bytes\n", in.File, in.Format, len(in.Tensors), in.Elements, in.Bytes)
	const few = 20 // a training checkpoint has hundreds
	for i, key := range slices.Sorted(maps.Keys(in.Metadata)) {
		if i == few {
			fmt.Fprintf(out, "and %d more, which --format json shows\n", len(in.Metadata)-few)
			break
		}
		fmt.Fprintf(out, "%s: %s\n", key, strconv.Quote(in.Metadata[key]))
	}
	if len(in.Tensors) == 0 {
		return nil
	}
	header := []string{"name", "type", "shape"}
	if statistics {
		header = append(header, "min", "max", "mean", "std", "")
	}
	t := newTable(out, header...)
	for _, i := range in.Tensors {
		row := []string{i.Name, string(i.DType), i.Shape.String()}
		if statistics {
			for _, v := range []*float64{i.Min, i.Max, i.Mean, i.Std} {
				cell := ""
				if v != nil {
					cell = strconv.FormatFloat(*v, 'g', 5, 64)
				}
				row = append(row, cell)
			}
			row = append(row, i.Notes())
		}
		t.add(row...)
	}
	return t.print()
}
