package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
)

func newPluginRun() *cobra.Command {
	var attach bool
	var kind string
	cmd := &cobra.Command{
		Use:   "run --attach [backend|optimizer] NAME [-- DEBUGGER...]",
		Short: "Run a plugin under a debugger, for other commands to attach to",
		Long: `Run starts a plugin in this terminal and prints what other commands need in their environment to use this process in place of one of their own:

  HARNESS_ATTACH=optimizer/NAME=unix:/tmp/...

With it, run, compare, plugin verify and all others attach to the plugin and leave it running. They wait for as long as it stands at a breakpoint, and tensors
are streamed to it. Several plugins are separated by commas. Ctrl-C ends the plugin.

What is behind -- is a debugger's command line. The plugin's is added to it: its executable, or its file where Python runs it. Without one, attach a debugger
to the process whose number is printed.`,
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
				return withHint(errors.New("plugin run: a plugin does nothing without a host"), "give --attach to let other commands attach to it")
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
			s, err := processes.Spec(e)
			if err != nil {
				return err
			}
			if len(debugger) > 0 {
				s.Path, s.Args = debugger[0], append(debugger[1:], program(e)...)
				if e.Script != "" && (s.Path == "python3" || s.Path == "python") {
					s.Path = e.Path // the one that has the modules, which that on $PATH need not have
				}
			}
			s.Stderr = cmd.ErrOrStderr()
			err = host.Expose(cmd.Context(), s, cmd.InOrStdin(), cmd.OutOrStdout(), func(a host.Address, pid int) {
				variable := fmt.Sprintf("%s=%s/%s=%s", catalog.AttachVariable, e.Kind, e.Name, a)
				fmt.Fprintln(cmd.OutOrStdout(), variable)
				fmt.Fprintf(cmd.ErrOrStderr(), "process %d waits for commands such as\n  %s harness plugin verify %s %s\nCtrl-C ends it\n", pid, variable, e.Kind, e.Name)
			})
			return processes.ExplainChange(err, e)
		},
	}
	cmd.Flags().BoolVar(&attach, "attach", false, "print what other commands need to attach to the plugin, and wait for them")
	cmd.Flags().StringVar(&kind, "kind", "", "backend or optimizer; needed where one of each has the name")
	return cmd
}

// program is the command line of a plugin for a debugger: that of what an interpreter runs, without the interpreter.
func program(e catalog.Entry) []string {
	if e.Script != "" {
		return e.Args
	}
	return append([]string{e.Path}, e.Args...)
}
