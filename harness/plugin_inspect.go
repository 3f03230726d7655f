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
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
)

func newPluginInspect() *cobra.Command {
	var kind, format string
	cmd := &cobra.Command{
		Use:   "inspect [backend|optimizer] NAME",
		Short: "Show what a plugin is and takes: file, version, hash, precisions, capabilities, options",
		Long: `Inspect starts a plugin for a moment and shows what it says of itself: its version, its precisions with their tolerances, whether it asks for a second
gradient in each step (probes) or has other parameters for evaluation (averages) or, of a backend, computes a step again for those that probe (repeats steps),
its options with their defaults, and the file that it is in with its SHA-256, as a run would record them.`,
		Example: `  harness plugin inspect ipu
  harness plugin inspect adamw --format json
  harness plugin inspect lamb --kind optimizer`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completePlugin,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("--format is %q, want table or json", format)
			}
			e, err := namedPlugin(args, kind)
			if err != nil {
				return err
			}
			d, err := describePlugin(cmd.Context(), e, cmd.ErrOrStderr())
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
	Path       string               `json:"path"` // of its file or its folder; empty: another process runs it
	SHA256     string               `json:"sha256"`
	Pinned     bool                 `json:"pinned"`               // it is refused when its files are changed
	Attached   string               `json:"attached,omitempty"`   // where the other process listens
	Precisions []describedPrecision `json:"precisions,omitempty"` // of a backend; the first is the default
	Options    []describedOption    `json:"options"`

	// See backend.Info and optimizer.Info. A backend has the first, an optimizer the others; one that could not be asked has none.
	RepeatsSteps *bool `json:"repeats_steps,omitempty"`
	Probes       *bool `json:"probes,omitempty"`
	Averages     *bool `json:"averages,omitempty"`
}

// capability is something that not all plugins can do.
type capability struct{ name, doc string }

func (d *description) capabilities() (can []capability) {
	for _, c := range []struct {
		has *bool
		capability
	}{
		{d.RepeatsSteps, capability{"repeats steps", "computes a batch again at other parameters, for optimizers that probe"}},
		{d.Probes, capability{"probes", "asks for a second gradient in each step, at other parameters"}},
		{d.Averages, capability{"averages", "has other parameters for evaluation than those that it trains at"}},
	} {
		if c.has != nil && *c.has {
			can = append(can, c.capability)
		}
	}
	return can
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
	var unknown, unfit []error
	for _, k := range kinds {
		e, err := catalog.Find(k, name)
		switch {
		case err == nil:
			found = append(found, e)
		case slices.Contains(catalog.Names(k), name): // it is there, and can't be started
			unfit = append(unfit, err)
		default:
			unknown = append(unknown, err)
		}
	}
	switch len(found) {
	case 0:
		if unfit != nil {
			return catalog.Entry{}, errors.Join(unfit...)
		}
		return catalog.Entry{}, errors.Join(unknown...)
	case 1:
		return found[0], nil
	}
	return catalog.Entry{}, fmt.Errorf("a %s and an %s are named %q: say which with --kind", found[0].Kind, found[1].Kind, name)
}

// described is what is known of a plugin before it is started.
func described(e catalog.Entry) (d description, err error) {
	d = description{Kind: e.Kind, Name: e.Name, BuiltIn: e.BuiltIn, Path: e.Source(), Pinned: e.Pinned, Attached: string(e.Address), Options: []describedOption{}}
	if d.Path != "" {
		d.SHA256, err = e.Hash()
	}
	return d, err
}

// describePlugin starts a plugin for a moment and asks it what it is.
func describePlugin(ctx context.Context, e catalog.Entry, out io.Writer) (d description, err error) {
	if d, err = described(e); err != nil {
		return d, err
	}
	p, err := processes.Start(ctx, e, processes.Options{Transport: host.Stream, Output: out})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if e.Kind == plugin.Optimizer {
		info, err := p.Optimizer().Describe(ctx)
		d.Version, d.Doc, d.Options = info.Version, info.Doc, describedOptions(info.Options)
		d.Probes, d.Averages = &info.Probes, &info.Averages
		return d, err
	}
	info, err := p.Backend().Describe(ctx)
	d.Version, d.Doc, d.Options, d.RepeatsSteps = info.Version, info.Doc, describedOptions(info.Options), &info.RepeatsSteps
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
	d.printHead(out)
	for _, c := range d.capabilities() {
		fmt.Fprintf(out, "%-13s  %s\n", c.name, c.doc)
	}
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

// printHead prints what a plugin is and where.
func (d *description) printHead(out io.Writer) {
	fmt.Fprintf(out, "%s %s, version %s: %s\n", d.Kind, d.Name, d.Version, d.Doc)
	if d.Attached != "" {
		fmt.Fprintf(out, "attached at %s\n", d.Attached)
		return
	}
	fmt.Fprintf(out, "file     %s%s\nSHA-256  %s%s\n", d.Path, map[bool]string{true: " (built in)"}[d.BuiltIn], d.SHA256, map[bool]string{true: " (pinned)"}[d.Pinned])
}
