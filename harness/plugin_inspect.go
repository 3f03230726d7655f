package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/extension"
)

func newPluginInspect() *cobra.Command {
	var kind, format string
	cmd := &cobra.Command{
		Use:   "inspect [backend|optimizer] NAME",
		Short: "Show what a plugin is and takes: file, version, hash, precisions, capabilities, options",
		Long: `Inspect starts a plugin for a moment and shows what it says of itself: its version, precisions with their
tolerances, options with their defaults, and the file that it is in with its SHA-256, as a run would record them.
Capabilities of an optimizer: it asks for a second gradient in each step (probes), or has other parameters for
evaluation (averages); of a backend: it computes a step again for optimizers that probe (repeats steps).`,
		Example: `  harness plugin inspect ipu
  harness plugin inspect adamw --format json
  harness plugin inspect lamb --kind optimizer`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completePlugin,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := tableOrJSON(format); err != nil {
				return err
			}
			e, err := namedPlugin(args, kind)
			if err != nil {
				return err
			}
			d, err := extension.Describe(cmd.Context(), e, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return tellDescription(cmd.OutOrStdout(), &d)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "backend or optimizer; needed if there is one of each with this name")
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	return cmd
}

func tellDescription(out io.Writer, d *extension.Description) error {
	var about strings.Builder
	tellPlugin(&about, d)
	for _, c := range d.Capabilities() {
		fmt.Fprintf(&about, "%-13s  %s\n", c.Name, c.Doc)
	}
	if err := printProse(out, about.String()); err != nil {
		return err
	}
	if len(d.Precisions) > 0 {
		t := newTable(out, "precision", "output tolerance", "gradient tolerance", "what")
		t.prose = true
		for _, p := range d.Precisions {
			t.add(p.Name, fmt.Sprintf("%.2g", p.OutputTolerance), fmt.Sprintf("%.2g", p.GradientTolerance), p.Doc)
		}
		if err := t.print(); err != nil {
			return err
		}
	}
	if len(d.Options) == 0 {
		_, err := fmt.Fprintln(out, "no options")
		return err
	}
	t := newTable(out, "option", "default", "what")
	t.prose = true
	for _, o := range d.Options {
		t.add(o.Name, o.Default, o.Doc)
	}
	return t.print()
}

// tellPlugin prints what a plugin is and where.
func tellPlugin(out io.Writer, d *extension.Description) {
	fmt.Fprintf(out, "%s %s, version %s: %s\n", d.Kind, d.Name, d.Version, d.Doc)
	if d.Attached != "" {
		fmt.Fprintf(out, "attached at %s\n", d.Attached)
		return
	}
	builtIn, pinned := map[bool]string{true: " (built in)"}, map[bool]string{true: " (pinned)"}
	fmt.Fprintf(out, "file     %s%s\nSHA-256  %s%s\n", d.Path, builtIn[d.BuiltIn], d.SHA256, pinned[d.Pinned])
}
