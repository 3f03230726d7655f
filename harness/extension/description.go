// Package extension manages plugins: it finds, describes and lists them, verifies them against their contract, and
// installs and removes them. The commands of harness plugin print what it returns.
package extension

import (
	"context"
	"errors"
	"io"
	"strings"

	"harness.invalid/core/option"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
)

// Description is what a plugin says of itself, and where it is.
type Description struct {
	Kind       plugin.Kind `json:"kind"`
	Name       string      `json:"name"`
	Version    string      `json:"version"`
	Doc        string      `json:"doc"`
	BuiltIn    bool        `json:"built_in"`
	Path       string      `json:"path"` // of its file or its folder; empty: another process runs it
	SHA256     string      `json:"sha256"`
	Pinned     bool        `json:"pinned"`               // it is refused when its files are changed
	Attached   string      `json:"attached,omitempty"`   // where the other process listens
	Precisions []Precision `json:"precisions,omitempty"` // of a backend; the first is the default
	Options    []Option    `json:"options"`

	// See backend.Info and optimizer.Info. A backend has the first, an optimizer the others; one that could not be asked
	// has none.
	RepeatsSteps *bool `json:"repeats_steps,omitempty"`
	Probes       *bool `json:"probes,omitempty"`
	Averages     *bool `json:"averages,omitempty"`
}

// Capability is something that not all plugins can do.
type Capability struct{ Name, Doc string }

// Capabilities lists what the plugin can do beyond what all plugins can.
func (d *Description) Capabilities() (can []Capability) {
	for _, c := range []struct {
		has *bool
		Capability
	}{
		{d.RepeatsSteps, Capability{"repeats steps", "computes a batch again at other parameters, for optimizers that probe"}},
		{d.Probes, Capability{"probes", "asks for a second gradient in each step, at other parameters"}},
		{d.Averages, Capability{"averages", "has other parameters for evaluation than those that it trains at"}},
	} {
		if c.has != nil && *c.has {
			can = append(can, c.Capability)
		}
	}
	return can
}

// Precision is a number format of a backend; see backend.Precision.
type Precision struct {
	Name              string  `json:"name"`
	Doc               string  `json:"doc"`
	OutputTolerance   float64 `json:"output_tolerance"` // greatest relative errors
	GradientTolerance float64 `json:"gradient_tolerance"`
	Reason            string  `json:"reason"`
}

// Option is a setting that a plugin takes.
type Option struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
}

// known is what there is to say of a plugin before it is started.
func known(e catalog.Entry) (d Description, err error) {
	d = Description{
		Kind: e.Kind, Name: e.Name, BuiltIn: e.BuiltIn, Path: e.Source(), Pinned: e.Pinned, Attached: string(e.Address), Options: []Option{},
	}
	if d.Path != "" {
		d.SHA256, err = e.Hash()
	}
	return d, err
}

// Describe starts a plugin for a moment and asks it what it is. What the plugin prints goes to out; nil: nowhere.
func Describe(ctx context.Context, e catalog.Entry, out io.Writer) (d Description, err error) {
	if d, err = known(e); err != nil {
		return d, err
	}
	p, err := processes.Start(ctx, e, processes.Options{Transport: host.Stream, Output: out})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if e.Kind == plugin.Optimizer {
		info, err := p.Optimizer().Describe(ctx)
		d.Version, d.Doc, d.Options = info.Version, info.Doc, optionsOf(info.Options)
		d.Probes, d.Averages = &info.Probes, &info.Averages
		return d, err
	}
	info, err := p.Backend().Describe(ctx)
	d.Version, d.Doc, d.Options, d.RepeatsSteps = info.Version, info.Doc, optionsOf(info.Options), &info.RepeatsSteps
	for _, q := range info.Precisions {
		d.Precisions = append(d.Precisions, Precision{
			Name: q.Name, Doc: q.Doc, OutputTolerance: q.OutputTolerance, GradientTolerance: q.GradientTolerance, Reason: q.Reason,
		})
	}
	return d, err
}

func optionsOf(options []option.Option) []Option {
	described := []Option{}
	for _, o := range options {
		described = append(described, Option{Name: o.Name, Default: o.Default, Doc: o.Doc})
	}
	return described
}

// Takes summarizes a plugin in a line: precisions of a backend, capabilities, and the names of its options.
func (d *Description) Takes() string {
	var precisions, options []string
	for _, p := range d.Precisions {
		precisions = append(precisions, p.Name)
	}
	for _, o := range d.Options {
		options = append(options, o.Name)
	}
	var capabilities []string
	for _, c := range d.Capabilities() {
		capabilities = append(capabilities, c.Name)
	}
	var groups []string
	for _, g := range []string{strings.Join(precisions, " "), strings.Join(capabilities, ", "), strings.Join(options, " ")} {
		if g != "" {
			groups = append(groups, g)
		}
	}
	return strings.Join(groups, "; ")
}
