package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/extension"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/processes"
)

func newPluginRun() *cobra.Command {
	var attach bool
	var kind string
	cmd := &cobra.Command{
		Use:   "run --attach [backend|optimizer] NAME [-- DEBUGGER...]",
		Short: "Run a plugin under a debugger, for other commands to attach to",
		Long: `Run starts a plugin in this terminal and prints what other commands need in their environment to use this process
instead of starting their own:

  HARNESS_ATTACH=optimizer/NAME=unix:/tmp/...

With it, run, compare, plugin verify and all other commands attach to the plugin and leave it running. They wait as
long as it stands at a breakpoint, and stream tensors to it. Separate several plugins by commas. Ctrl-C ends the plugin.

After -- comes a debugger's command line, to which the plugin's is appended: its executable, or its script if Python
runs it. Without one, attach a debugger to the process whose number is printed.`,
		Example: `  harness plugin run --attach my-rule
  harness plugin run --attach my-rule -- dlv exec --headless --continue --accept-multiclient --listen 127.0.0.1:4000
  harness plugin run --attach my-python-rule -- python3 -m pdb -c continue
  harness plugin run --attach backend ipu -- gdb --args`,
		Args: func(cmd *cobra.Command, args []string) error {
			n := len(args)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				if n == dash {
					return errors.New("want the command line of a debugger behind --")
				}
				n = dash
			}
			if n < 1 || n > 2 {
				return fmt.Errorf("want [backend|optimizer] NAME, and a debugger behind --, not %d words before it", n)
			}
			return nil
		},
		ValidArgsFunction: completePlugin,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !attach {
				return hint.With(errors.New("plugin run: a plugin does nothing without a host"), "give --attach to let other commands attach to it")
			}
			var debugger []string
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, debugger = args[:dash], args[dash:]
			}
			e, err := namedPlugin(args, kind)
			if err != nil {
				return err
			}
			if e.Address != "" {
				return fmt.Errorf("plugin run: %s names %s %s, which runs already: unset it", catalog.AttachVariable, e.Kind, e.Name)
			}
			s, err := extension.Debug(e, debugger)
			if err != nil {
				return err
			}
			s.Stderr = cmd.ErrOrStderr()
			err = host.Expose(cmd.Context(), s, cmd.InOrStdin(), cmd.OutOrStdout(), func(a host.Address, pid int) {
				variable := fmt.Sprintf("%s=%s/%s=%s", catalog.AttachVariable, e.Kind, e.Name, a)
				fmt.Fprintln(cmd.OutOrStdout(), variable)
				fmt.Fprintf(cmd.ErrOrStderr(), "process %d waits for commands such as\n  %s harness plugin verify %s %s\nCtrl-C ends it\n",
					pid, variable, e.Kind, e.Name)
			})
			return processes.ExplainChange(err, e)
		},
	}
	cmd.Flags().BoolVar(&attach, "attach", false, "print what other commands need to attach to the plugin, and wait for them")
	cmd.Flags().StringVar(&kind, "kind", "", "backend or optimizer; needed if there is one of each with this name")
	return cmd
}
