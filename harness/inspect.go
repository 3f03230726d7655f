package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

func newInspect() *cobra.Command {
	var format string
	var statistics, quiet bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "List the tensors of a file: names, types, shapes, statistics",
		Long: `Inspect lists the tensors of a file of safetensors, of torch.save (pytorch_model.bin, either form), or of a TensorFlow checkpoint, or of a folder with
one of them, under the names that they have there; of a run it is the model in its newest checkpoint. The file is mapped, not loaded; values are read
once, a piece at a time, for their statistics, and not at all with --statistics=false. Values that are not finite are counted and left out of the
others.`,
		Example: `  harness inspect bert-tiny/model.safetensors
  harness inspect uncased_L-2_H-128_A-2/bert_model.ckpt --statistics=false
  harness inspect pytorch_model.bin --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if format != "table" && format != "json" {
				return fmt.Errorf("--format is %q, want table or json", format)
			}
			path := args[0]
			if run, at, ok := checkpointOf(path); ok {
				c, err := openCheckpoint(run, at)
				if err != nil {
					return err
				}
				path = c.ModelFile()
				if err := c.Close(); err != nil {
					return err
				}
			}
			f, err := huggingface.OpenTensors(path)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			in := inspection{File: f.Name(), Format: f.Format(), Metadata: f.Metadata(), Tensors: []inspected{}}
			for _, t := range f.Tensors() {
				in.add(t)
			}
			if statistics {
				show := newProgress(cmd.ErrOrStderr(), quiet)
				observe, done := show.task("statistics")
				err := in.measure(cmd.Context(), observe)
				done()
				show.close()
				if err != nil {
					return err
				}
			}
			if format == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(in)
			}
			return in.print(cmd.OutOrStdout(), statistics)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "table", "table or json")
	f.BoolVar(&statistics, "statistics", true, "read the values for their statistics")
	f.BoolVar(&quiet, "quiet", false, "no progress")
	return cmd
}

// inspection is what inspect says of a file.
type inspection struct {
	File     string            `json:"file"`
	Format   string            `json:"format"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Elements int64             `json:"elements"` // of all tensors; those that share their data count once
	Bytes    int64             `json:"bytes"`
	Tensors  []inspected       `json:"tensors"`
}

// inspected is what it says of a tensor. Statistics are absent when they were not asked for, and for types that are not numbers.
type inspected struct {
	Name   string       `json:"name"`
	DType  tensor.DType `json:"dtype"`
	Shape  tensor.Shape `json:"shape"`
	Bytes  int64        `json:"bytes"`
	File   string       `json:"file"`
	Offset int64        `json:"offset"`           // of the first value in the file
	Shares string       `json:"shares,omitempty"` // the tensor before it whose data it shows
	Min    *float64     `json:"min,omitempty"`    // of the finite values, if there are any
	Max    *float64     `json:"max,omitempty"`
	Mean   *float64     `json:"mean,omitempty"`
	Std    *float64     `json:"std,omitempty"`
	Zeros  *int         `json:"zeros,omitempty"`
	NaNs   *int         `json:"nans,omitempty"`
	Infs   *int         `json:"infs,omitempty"`

	tensor weights.Tensor
}

func (in *inspection) add(t weights.Tensor) {
	i := inspected{Name: t.Name, DType: t.DType, Shape: append(tensor.Shape{}, t.Shape...), Bytes: t.ByteLen(), File: t.Part().Name(), Offset: t.Offset(), tensor: t}
	for _, other := range in.Tensors {
		if i.Bytes > 0 && t.SameData(other.tensor) {
			i.Shares = other.Name
			break
		}
	}
	if i.Shares == "" {
		in.Elements += int64(t.Shape.Len())
		in.Bytes += i.Bytes
	}
	in.Tensors = append(in.Tensors, i)
}

// measure reads all values, several tensors at a time.
func (in *inspection) measure(ctx context.Context, observe func(done, total int64)) error {
	var mu sync.Mutex
	var wait sync.WaitGroup
	next, done, total := 0, int64(0), int64(0)
	for _, t := range in.Tensors {
		total += t.Bytes
	}
	errs := make([]error, len(in.Tensors))
	for range min(runtime.GOMAXPROCS(0), len(in.Tensors)) {
		wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(in.Tensors) || ctx.Err() != nil {
					return
				}
				errs[i] = in.Tensors[i].measure()
				mu.Lock()
				done += in.Tensors[i].Bytes
				observe(done, total)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

func (i *inspected) measure() error {
	s, ok, err := i.tensor.Statistics()
	if err != nil || !ok {
		return err
	}
	i.Zeros, i.NaNs, i.Infs = &s.Zeros, &s.NaNs, &s.Infs
	if !math.IsNaN(s.Mean) {
		i.Min, i.Max, i.Mean, i.Std = &s.Min, &s.Max, &s.Mean, &s.Std
	}
	return nil
}

func (in *inspection) print(out io.Writer, statistics bool) error {
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
			row = append(row, i.notes())
		}
		if err := t.Append(row); err != nil {
			return err
		}
	}
	return t.Render()
}

// notes are what is out of the ordinary.
func (i *inspected) notes() string {
	notes := ""
	if i.NaNs != nil && *i.NaNs > 0 {
		notes += fmt.Sprintf("%d NaN ", *i.NaNs)
	}
	if i.Infs != nil && *i.Infs > 0 {
		notes += fmt.Sprintf("%d Inf ", *i.Infs)
	}
	if i.Shares != "" {
		notes += "shares " + i.Shares
	}
	return notes
}
