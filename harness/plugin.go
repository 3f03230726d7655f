package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
)

func newPlugin() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "List, inspect, verify, write, install and debug backends and optimizers"}
	cmd.AddCommand(newPluginList(), newPluginInspect(), newPluginVerify(), newPluginNew(), newPluginInstall(), newPluginUninstall(), newPluginRun(), newPluginServe())
	return cmd
}

var pluginKinds = []plugin.Kind{plugin.Backend, plugin.Optimizer}

// completePlugin completes the name of a plugin, after its kind where that is given, too.
func completePlugin(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, k := range pluginKinds {
		switch {
		case len(args) == 0:
			words = append(words, string(k))
			words = append(words, catalog.Names(k)...)
		case len(args) == 1 && args[0] == string(k):
			words = catalog.Names(k)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// namedPlugin finds the plugin of the arguments [KIND] NAME, or of NAME and --kind.
func namedPlugin(args []string, kind string) (catalog.Entry, error) {
	if len(args) == 2 {
		if kind != "" && kind != args[0] {
			return catalog.Entry{}, fmt.Errorf("the kind is given twice, as %s and with --kind %s", args[0], kind)
		}
		kind, args = args[0], args[1:]
	}
	kinds := pluginKinds
	if kind != "" {
		if !slices.Contains(kinds, plugin.Kind(kind)) {
			known := []string{string(plugin.Backend), string(plugin.Optimizer)}
			return catalog.Entry{}, fmt.Errorf("the kind of a plugin is %q, want %s or %s%s", kind, plugin.Backend, plugin.Optimizer, spelling.Hint(kind, known))
		}
		kinds = []plugin.Kind{plugin.Kind(kind)}
	}
	return findPlugin(kinds, args[0])
}

// newPluginServe is how this program plays a built-in plugin. It is for the host, not for people.
func newPluginServe() *cobra.Command {
	return &cobra.Command{
		Use:    "serve KIND NAME",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE:   func(_ *cobra.Command, args []string) error { return catalog.Serve(plugin.Kind(args[0]), args[1]) },
	}
}

// newTable is a plain table whose cells are left as they are.
func newTable(out io.Writer, header ...string) *tablewriter.Table {
	t := tablewriter.NewTable(out,
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRendition(tw.Rendition{Borders: tw.BorderNone, Settings: tw.Settings{Separators: tw.Separators{BetweenColumns: tw.Off}}}),
		tablewriter.WithRowMaxWidth(72))
	t.Header(header)
	return t
}

// verification is what verify found.
type verification struct {
	Cases []agreement.Row `json:"cases"`
	Rules []ruleResult    `json:"rules"`
	Pass  bool            `json:"pass"`
}

// ruleResult is a rule of the contract and what broke it.
type ruleResult struct {
	Rule  string `json:"rule"`
	Error string `json:"error,omitempty"`
	Pass  bool   `json:"pass"`
}

func newPluginVerify() *cobra.Command {
	var file, format, transport string
	var precisions []string
	cmd := &cobra.Command{
		Use:   "verify backend|optimizer NAME",
		Short: "Hold a plugin against its contract and against results of another program",
		Long: `Verify starts a plugin and runs the conformance suite over the real wire. With --oracle it also compares what the plugin computes with the results in
safetensors files: outputs, losses and gradients of a backend, the parameters after each step of an optimizer.

The exit code is 0 when everything passes, 1 when something does not, and 2 when the plugin could not be tried.`,
		Example: `  harness plugin verify backend gpu-ref --oracle golden/bert
  harness plugin verify backend ipu --oracle golden/bert --precisions fp16.16 --format json
  harness plugin verify optimizer lamb --oracle golden/optimizers.safetensors`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return []string{string(plugin.Backend), string(plugin.Optimizer)}, cobra.ShellCompDirectiveNoFileComp
			case 1:
				return catalog.Names(plugin.Kind(args[0])), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := plugin.Kind(args[0])
			if kind != plugin.Backend && kind != plugin.Optimizer {
				return fmt.Errorf("plugin verify: kind is %q, want %s or %s", kind, plugin.Backend, plugin.Optimizer)
			}
			if format != "table" && format != "json" {
				return fmt.Errorf("--format is %q, want table or json", format)
			}
			if len(precisions) > 0 && (kind != plugin.Backend || file == "") {
				return errors.New("--precisions chooses what of a backend is held against the oracle: give --oracle too")
			}
			v, err := verify(cmd.Context(), kind, args[1], host.Transport(transport), file, precisions, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := v.print(cmd.OutOrStdout(), format); err != nil {
				return err
			}
			if !v.Pass {
				return errFailed
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "oracle", "", "folder with cases for a backend, file for an optimizer")
	cmd.Flags().StringSliceVar(&precisions, "precisions", nil, "precisions of a backend to hold against the oracle (default: all)")
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	cmd.Flags().StringVar(&transport, "transport", "memory", "memory or stream")
	return cmd
}

func verify(ctx context.Context, kind plugin.Kind, name string, transport host.Transport, file string, precisions []string, out io.Writer) (v *verification, err error) {
	e, err := catalog.Find(kind, name)
	if err != nil {
		return nil, err
	}
	p, err := processes.Start(ctx, e, processes.Options{Transport: transport, Output: out})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	v = &verification{Cases: []agreement.Row{}, Pass: true}
	switch kind {
	case plugin.Backend:
		for _, r := range backendtest.Conformance(ctx, p.Backend()) {
			v.rule(r.Name, r.Err)
		}
		if file != "" {
			v.Cases, err = backendtest.Oracle(ctx, p.Backend(), file, precisions...)
		}
	case plugin.Optimizer:
		for _, r := range optimizertest.Conformance(ctx, p.Optimizer()) {
			v.rule(r.Name, r.Err)
		}
		if file != "" {
			v.Cases, err = optimizertest.Oracle(ctx, p.Optimizer(), name, file)
		}
	}
	if err != nil {
		return nil, err
	}
	if file != "" && !agreement.Passed(v.Cases) {
		v.Pass = false
	}
	return v, nil
}

func (v *verification) rule(name string, err error) {
	r := ruleResult{Rule: name, Pass: err == nil}
	if err != nil {
		r.Error = err.Error()
		v.Pass = false
	}
	v.Rules = append(v.Rules, r)
}

func (v *verification) print(out io.Writer, format string) error {
	if format == "json" {
		return json.NewEncoder(out).Encode(v)
	}
	word := map[bool]string{true: "pass", false: "FAIL"}
	failed := 0
	rules := newTable(out, "rule", "", "why")
	for _, r := range v.Rules {
		if !r.Pass {
			failed++
		}
		if err := rules.Append(r.Rule, word[r.Pass], r.Error); err != nil {
			return err
		}
	}
	if err := rules.Render(); err != nil {
		return err
	}
	if len(v.Cases) > 0 {
		cases := newTable(out, "case", "task", "precision", "quantity", "relative error", "limit", "")
		for _, r := range v.Cases {
			if !r.Pass {
				failed++
			}
			if err := cases.Append(r.Case, r.Task, r.Precision, r.Quantity, fmt.Sprintf("%.2e", r.RelError), fmt.Sprintf("%.0e", r.Limit), word[r.Pass]); err != nil {
				return err
			}
		}
		if err := cases.Render(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d rules and %d quantities, %d failed\n", len(v.Rules), len(v.Cases), failed)
	return err
}
