package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin"
	"harness.invalid/harness/catalog"
)

func newPluginInspect() *cobra.Command {
	var kind, format string
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show what a plugin is and takes: file, version, hash, precisions, options",
		Long: `Inspect starts a plugin for a moment and shows what it says of itself: its version, its precisions with their tolerances, its options with their
defaults, and the file that it is in with its SHA-256, as a run would record them.`,
		Example: `  harness plugin inspect ipu
  harness plugin inspect adamw --format json
  harness plugin inspect lamb --kind optimizer`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return append(catalog.Names(plugin.Backend), catalog.Names(plugin.Optimizer)...), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("--format is %q, want table or json", format)
			}
			kinds := []plugin.Kind{plugin.Backend, plugin.Optimizer}
			if kind != "" {
				if !slices.Contains(kinds, plugin.Kind(kind)) {
					return fmt.Errorf("--kind is %q, want %s or %s", kind, plugin.Backend, plugin.Optimizer)
				}
				kinds = []plugin.Kind{plugin.Kind(kind)}
			}
			e, err := findPlugin(kinds, args[0])
			if err != nil {
				return err
			}
			d, err := describePlugin(cmd.Context(), e)
			if err != nil {
				return err
			}
			if format == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(d)
			}
			return d.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "backend or optimizer; needed where one of each has the name")
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	return cmd
}

// description is what inspect says of a plugin.
type description struct {
	Kind       plugin.Kind          `json:"kind"`
	Name       string               `json:"name"`
	Version    string               `json:"version"`
	Doc        string               `json:"doc"`
	BuiltIn    bool                 `json:"built_in"`
	Path       string               `json:"path"`
	SHA256     string               `json:"sha256"`
	Precisions []describedPrecision `json:"precisions,omitempty"` // of a backend; the first is the default
	Options    []describedOption    `json:"options"`
}

type describedPrecision struct {
	Name              string  `json:"name"`
	Doc               string  `json:"doc"`
	OutputTolerance   float64 `json:"output_tolerance"` // greatest relative errors, see backend.Precision
	GradientTolerance float64 `json:"gradient_tolerance"`
	Reason            string  `json:"reason"`
}

type describedOption struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
}

// findPlugin finds the one plugin of these kinds that has the name.
func findPlugin(kinds []plugin.Kind, name string) (catalog.Entry, error) {
	var found []catalog.Entry
	var errs []error
	for _, k := range kinds {
		e, err := catalog.Find(k, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, e)
	}
	switch len(found) {
	case 0:
		return catalog.Entry{}, errors.Join(errs...)
	case 1:
		return found[0], nil
	}
	return catalog.Entry{}, fmt.Errorf("a %s and an %s are named %q: say which with --kind", found[0].Kind, found[1].Kind, name)
}

// describePlugin starts a plugin for a moment and asks it what it is.
func describePlugin(ctx context.Context, e catalog.Entry) (d description, err error) {
	d = description{Kind: e.Kind, Name: e.Name, BuiltIn: e.BuiltIn, Path: e.Source()}
	if d.SHA256, err = plugin.Hash(d.Path); err != nil {
		return d, err
	}
	p, err := launch(ctx, e.Kind, e.Name, plugin.Stream, nil)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if e.Kind == plugin.Optimizer {
		info, err := p.Optimizer().Describe(ctx)
		d.Version, d.Doc, d.Options = info.Version, info.Doc, describedOptions(info.Options)
		return d, err
	}
	info, err := p.Backend().Describe(ctx)
	d.Version, d.Doc, d.Options = info.Version, info.Doc, describedOptions(info.Options)
	for _, q := range info.Precisions {
		d.Precisions = append(d.Precisions, describePrecision(q))
	}
	return d, err
}

func describePrecision(p backend.Precision) describedPrecision {
	return describedPrecision{Name: p.Name, Doc: p.Doc, OutputTolerance: p.OutputTolerance, GradientTolerance: p.GradientTolerance, Reason: p.Reason}
}

func describedOptions(options []option.Option) []describedOption {
	described := []describedOption{}
	for _, o := range options {
		described = append(described, describedOption{Name: o.Name, Default: o.Default, Doc: o.Doc})
	}
	return described
}

func (d *description) print(out io.Writer) error {
	where := d.Path
	if d.BuiltIn {
		where += " (built in)"
	}
	fmt.Fprintf(out, "%s %s, version %s: %s\nfile     %s\nSHA-256  %s\n", d.Kind, d.Name, d.Version, d.Doc, where, d.SHA256)
	if len(d.Precisions) > 0 {
		t := newTable(out, "precision", "output tolerance", "gradient tolerance", "what")
		for _, p := range d.Precisions {
			if err := t.Append(p.Name, fmt.Sprintf("%.2g", p.OutputTolerance), fmt.Sprintf("%.2g", p.GradientTolerance), p.Doc); err != nil {
				return err
			}
		}
		if err := t.Render(); err != nil {
			return err
		}
	}
	if len(d.Options) == 0 {
		_, err := fmt.Fprintln(out, "no options")
		return err
	}
	t := newTable(out, "option", "default", "what")
	for _, o := range d.Options {
		if err := t.Append(o.Name, o.Default, o.Doc); err != nil {
			return err
		}
	}
	return t.Render()
}
