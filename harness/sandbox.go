package main

import (
	"os"

	"github.com/spf13/cobra"

	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/processes"
)

// addSandbox adds the flag that confines plugins, which all commands that start some share.
func addSandbox(root *cobra.Command) {
	var name string
	root.PersistentFlags().StringVar(&name, "sandbox", os.Getenv(processes.SandboxVariable),
		"confine plugins that are not built in: bwrap, or a program that starts them (default $"+processes.SandboxVariable+")")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if err := host.CheckSandbox(name); err != nil {
			return err
		}
		return os.Setenv(processes.SandboxVariable, name)
	}
}
