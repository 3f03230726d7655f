package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/plugin"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/extension"
)

func newPlugin() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "List, inspect, verify, write, install and debug backends and optimizers"}
	cmd.AddCommand(newPluginList(), newPluginInspect(), newPluginVerify(), newPluginNew(), newPluginInstall(), newPluginUninstall(),
		newPluginRun(), newPluginServe())
	return cmd
}

// namedPlugin finds the plugin of the arguments [KIND] NAME, or of NAME and --kind.
func namedPlugin(args []string, kind string) (catalog.Entry, error) {
	if len(args) == 2 {
		if kind != "" && kind != args[0] {
			return catalog.Entry{}, fmt.Errorf("the kind is given twice, as %s and with --kind %s", args[0], kind)
		}
		kind, args = args[0], args[1:]
	}
	return extension.Find(kind, args[0])
}

// newPluginServe makes this program a built-in plugin. It is for the host, not for people.
func newPluginServe() *cobra.Command {
	return &cobra.Command{
		Use:    "serve KIND NAME",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE:   func(_ *cobra.Command, args []string) error { return catalog.Serve(plugin.Kind(args[0]), args[1]) },
	}
}
