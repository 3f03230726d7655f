package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/plugin"
	"harness.invalid/harness/skeleton"
)

func newPluginNew() *cobra.Command {
	var p skeleton.Plugin
	cmd := &cobra.Command{
		Use:   "new optimizer|backend NAME",
		Short: "Write a small plugin that works, with a test",
		Long: `New writes a plugin of less than 60 lines and its test into a folder, and prints the commands that build it,
verify it and use it. It works as it is: replace what it does with your own rule or device.

A plugin in Go is a module of its own whose go.mod names a checkout of harness: --module-dir, or the one that this
program was built from, or the one around the current folder. A plugin in Python needs only Python and a few packages
(grpcio, protobuf, numpy); a backend in Python also needs PyTorch.`,
		Example: `  harness plugin new optimizer my-rule
  harness plugin new optimizer my-rule --language python --out plugins/my-rule
  harness plugin new backend my-device --language go --module-dir ~/src/harness`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{string(plugin.Optimizer), string(plugin.Backend)}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Kind, p.Name = plugin.Kind(args[0]), args[1]
			if err := p.Write(); err != nil {
				return fmt.Errorf("plugin new: %w", err)
			}
			for _, line := range p.Commands() {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&p.Language, "language", "go", "go or python")
	cmd.Flags().StringVar(&p.Folder, "out", "", "folder to write, which must not exist (default: harness-KIND-NAME)")
	cmd.Flags().StringVar(&p.Module, "module-dir", "", "checkout of harness that a plugin in go is built with")
	return cmd
}
