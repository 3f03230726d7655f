package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/emulator"
)

func newFormatsPolicy() *cobra.Command {
	return &cobra.Command{
		Use:   "policy [NAME]",
		Short: "List the policies for training in narrow formats, or print one",
		Long: `Policy prints a table that says what is rounded where, to train with as it is or after changes; without a name it lists
those that there are.`,
		Example: `  harness formats policy
  harness formats policy mxfp8 > mxfp8.yaml
  harness compare --backends gpu-ref,gpu-ref:mxfp8.yaml`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return emulator.PolicyNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if len(args) == 0 {
				for _, name := range emulator.PolicyNames() {
					fmt.Fprintln(out, name)
				}
				return nil
			}
			text, err := emulator.PolicyText(args[0])
			if err != nil {
				return err
			}
			_, err = out.Write(text)
			return err
		},
	}
}
