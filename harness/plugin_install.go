package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"harness.invalid/harness/extension"
)

func newPluginInstall() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "install FILE|FOLDER",
		Short: "Copy a plugin into your plugin folder, and pin it",
		Long: `Install copies a plugin into your plugin folder: an executable named harness-backend-NAME or
harness-optimizer-NAME, or a folder that holds such an executable, with all its files. It must answer when asked what
it is. It replaces an installed plugin of the same name.

A file beside it, with .sha256 appended to its name, keeps the SHA-256 of its files as sha256sum writes them. A plugin
that changed since is refused until you install it again. To accept a change that you made in your plugin folder,
install the plugin from there.`,
		Example: `  harness plugin install harness-optimizer-my-rule/harness-optimizer-my-rule
  harness plugin install devices/mine
  harness plugin install ~/.config/harness/plugins/harness-optimizer-my-rule`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := extension.Install(cmd.Context(), args[0], cmd.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("plugin install: %w", err)
			}
			return show(cmd, format, d, func(w io.Writer) error { tellPlugin(w, &d); return nil })
		},
	}
	addFormat(cmd, &format, "table")
	return cmd
}

// uninstalled is a plugin that was removed.
type uninstalled struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Source string `json:"source"`
}

func newPluginUninstall() *cobra.Command {
	var kind, format string
	cmd := &cobra.Command{
		Use:   "uninstall [backend|optimizer] NAME",
		Short: "Remove a plugin from your plugin folder",
		Long:  `Uninstall removes a plugin and its pin from your plugin folder. It leaves plugins elsewhere alone.`,
		Example: `  harness plugin uninstall my-rule
  harness plugin uninstall backend my-device`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completePlugin,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := namedPlugin(args, kind)
			if err != nil {
				return err
			}
			if err := extension.Uninstall(e); err != nil {
				return fmt.Errorf("plugin uninstall: %w", err)
			}
			return show(cmd, format, uninstalled{string(e.Kind), e.Name, e.Source()}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "removed %s\n", e.Source())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "backend or optimizer; needed if there is one of each with this name")
	addFormat(cmd, &format, "table")
	return cmd
}
