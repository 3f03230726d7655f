package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/extension"
	"harness.invalid/harness/processes"
)

func newPluginVerify() *cobra.Command {
	var c extension.Check
	var format, transport string
	cmd := &cobra.Command{
		Use:   "verify backend|optimizer NAME",
		Short: "Check a plugin against its contract and against results of another program",
		Long: `Verify starts a plugin and runs the conformance suite over the real wire. With --oracle it also compares what
the plugin computes with results in safetensors files: outputs, losses and gradients of a backend, or the parameters
after each step of an optimizer.

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
			kind, err := extension.ParseKind(args[0])
			if err != nil {
				return fmt.Errorf("plugin verify: %w", err)
			}
			if err := tableOrJSON(format); err != nil {
				return err
			}
			if len(c.Precisions) > 0 && (kind != plugin.Backend || c.Oracle == "") {
				return errors.New("--precisions selects what is compared with the oracle: give --oracle too, and a backend")
			}
			v, err := extension.Verify(cmd.Context(), kind, args[1], c, processes.Options{
				Transport: host.Transport(transport), Output: cmd.ErrOrStderr(),
			})
			if err != nil {
				return err
			}
			if err := tellVerification(cmd.OutOrStdout(), v, format); err != nil {
				return err
			}
			if !v.Pass {
				return errFailed
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&c.Oracle, "oracle", "", "folder with cases for a backend, file for an optimizer")
	cmd.Flags().StringSliceVar(&c.Precisions, "precisions", nil, "precisions of a backend to compare with the oracle (default: all)")
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	cmd.Flags().StringVar(&transport, "transport", "memory", "memory or stream")
	return cmd
}

func tellVerification(out io.Writer, v *extension.Verification, format string) error {
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
		rules.add(r.Rule, word[r.Pass], r.Error)
	}
	if err := rules.print(); err != nil {
		return err
	}
	if len(v.Cases) > 0 {
		cases := newTable(out, "case", "task", "precision", "quantity", "relative error", "limit", "")
		for _, r := range v.Cases {
			if !r.Pass {
				failed++
			}
			cases.add(r.Case, r.Task, r.Precision, r.Quantity, fmt.Sprintf("%.2e", r.RelError), fmt.Sprintf("%.0e", r.Limit), word[r.Pass])
		}
		if err := cases.print(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d rules and %d quantities, %d failed\n", len(v.Rules), len(v.Cases), failed)
	return err
}
