package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"

	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/option"
	"harness.invalid/core/oracle"
	"harness.invalid/core/plugin"
	"harness.invalid/harness/catalog"
)

func newPlugin() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "List, inspect, verify and write backends and optimizers"}
	cmd.AddCommand(newPluginList(), newPluginInspect(), newPluginVerify(), newPluginNew(), newPluginServe())
	return cmd
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

func newPluginList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the plugins that are built in or were found",
		Long: `List shows all backends and optimizers: those that are built in, and executables named harness-backend-NAME or harness-optimizer-NAME in the
folders of $HARNESS_PLUGIN_PATH, in the user's plugin folder, and in $PATH.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listPlugins(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func listPlugins(ctx context.Context, out io.Writer) error {
	list, err := catalog.List()
	if err != nil {
		return err
	}
	t := newTable(out, "kind", "name", "version", "precisions, options", "where")
	for _, e := range list {
		where := e.Source()
		if e.BuiltIn {
			where = "built in"
		}
		if e.Note != "" {
			_ = t.Append(string(e.Kind), e.Name, "", e.Note, where)
			continue
		}
		if e.Family != nil {
			_ = t.Append(string(e.Kind), e.Name, "", "such as "+strings.Join(e.Family, ", "), where)
			continue
		}
		version, takes, err := inspect(ctx, e)
		if err != nil {
			takes = err.Error()
		}
		if err := t.Append(string(e.Kind), e.Name, version, takes, where); err != nil {
			return err
		}
	}
	return t.Render()
}

// inspect starts a plugin for a moment and asks it what it is.
func inspect(ctx context.Context, e catalog.Entry) (version, takes string, err error) {
	p, err := launch(ctx, e.Kind, e.Name, plugin.Stream, nil)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if e.Kind == plugin.Optimizer {
		info, err := p.Optimizer().Describe(ctx)
		return info.Version, optionNames(info.Options), err
	}
	info, err := p.Backend().Describe(ctx)
	var precisions []string
	for _, q := range info.Precisions {
		precisions = append(precisions, q.Name)
	}
	return info.Version, strings.Join(precisions, " ") + "; " + optionNames(info.Options), err
}

func optionNames(options []option.Option) string {
	var names []string
	for _, o := range options {
		names = append(names, o.Name+"="+o.Default)
	}
	return strings.Join(names, " ")
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
	Cases []oracle.Row `json:"cases"`
	Rules []ruleResult `json:"rules"`
	Pass  bool         `json:"pass"`
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
			v, err := verify(cmd.Context(), kind, args[1], plugin.Transport(transport), file, precisions)
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

func verify(ctx context.Context, kind plugin.Kind, name string, transport plugin.Transport, file string, precisions []string) (v *verification, err error) {
	p, err := launch(ctx, kind, name, transport, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	v = &verification{Cases: []oracle.Row{}, Pass: true}
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
	if file != "" && !oracle.Passed(v.Cases) {
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
