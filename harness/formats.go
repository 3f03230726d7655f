package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"harness.invalid/core/format"
	"harness.invalid/core/format/oracle"
)

func newFormats() *cobra.Command {
	cmd := &cobra.Command{Use: "formats", Short: "List, show and verify number formats, and policies of them"}
	cmd.AddCommand(newFormatsList(), newFormatsShow(), newFormatsVerify(), newFormatsPolicy())
	return cmd
}

func newFormatsList() *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "list", Short: "List the built-in formats", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := tableOrJSON(as); err != nil {
				return err
			}
			list := make([]*format.Format, 0, len(format.Names()))
			t := newTable(cmd.OutOrStdout(), "format", "largest", "least", "is")
			for _, name := range format.Names() {
				f, err := format.Load(name)
				if err != nil {
					return err
				}
				list = append(list, f)
				t.add(name, number(f.Element.Max()), number(f.Element.Tiny()), f.Line())
			}
			if as == "json" {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return t.print()
		},
	}
	cmd.Flags().StringVar(&as, "format", "table", "table or json")
	return cmd
}

func newFormatsShow() *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use:   "show FORMAT",
		Short: "Print a format with everything filled in",
		Long: `Show prints the description of a built-in format, or of a file of one's own, which it checks, with everything filled in.
What it prints is such a file.`,
		Example: `  harness formats show mxfp8-e4m3 > mine.yaml
  harness formats show e4m3 --format json`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return format.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if as != "yaml" && as != "json" {
				return fmt.Errorf("--format is %q, want yaml or json", as)
			}
			f, err := format.Load(args[0])
			if err != nil {
				return err
			}
			if as == "json" {
				return writeJSON(cmd.OutOrStdout(), f)
			}
			return f.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&as, "format", "yaml", "yaml or json")
	return cmd
}

func newFormatsVerify() *cobra.Command {
	var dir, as string
	cmd := &cobra.Command{
		Use:   "verify --oracle DIR",
		Short: "Hold the built-in formats against values that other programs computed",
		Long: `Verify compares casts, blocks and products of the built-in formats with the tensors of safetensors files. Casts and
blocks must agree in every value, products within 1e-6 of their norm. A cast of the tensor x to the format F is named
F.nearest, F.nearest.saturate or F.stochastic.saturate (of the random bits in the tensor bits); a matrix T quantised
along its last axis is named T.F.VARIANT, such as x.mxfp8_e4m3.floor; and a product of 0.a and 0.b, both quantised along
their last axis, 0.F.VARIANT.

The exit code is 0 when everything agrees, and 1 when something does not.`,
		Example: `  harness formats verify --oracle golden/formats
  harness formats verify --oracle golden/formats --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := tableOrJSON(as); err != nil {
				return err
			}
			r, err := oracle.Verify(dir)
			if err != nil {
				return err
			}
			if as == "json" {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			} else {
				err = tellFormats(cmd.OutOrStdout(), r)
			}
			if err == nil && !r.Pass {
				err = errFailed
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "oracle", "", "folder with safetensors files")
	cmd.Flags().StringVar(&as, "format", "table", "table or json")
	if err := cmd.MarkFlagRequired("oracle"); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

func tellFormats(out io.Writer, r *oracle.Report) error {
	t := newTable(out, "file", "tensor", "format", "values", "differ", "worst")
	failed := 0
	for _, c := range r.Cases {
		if !c.Pass() {
			failed++
		}
		t.add(c.File, c.Tensor, c.Format, strconv.Itoa(c.Values), strconv.Itoa(c.Mismatches), fmt.Sprintf("%.2g", c.Worst))
	}
	if err := t.print(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d tensors, %d failed\n", len(r.Cases), failed)
	return err
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
