package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/hint"
)

// unknownCommand reports a word that is not a command of the group before it: cobra shows the group's help instead, as
// if nothing were wrong.
func unknownCommand(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, _ := root.Find(args)
	if cmd.Parent() == root && cmd.Name() == "help" {
		cmd, rest, _ = root.Find(rest)
	}
	isWord := len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd)
	if !cmd.HasSubCommands() || cmd.Runnable() || !isWord {
		return nil
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s (known: %s)",
		rest[0], cmd.CommandPath(), spelling.Hint(rest[0], known), strings.Join(known, ", "))
}

// wanted says what values the types of flags have.
var wanted = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number of 0 or more", "uint": "a whole number of 0 or more",
	"float64": "a number", "bool": "true or false", "duration": "a time such as 90s, 10m or 1h30m",
}

// explainMistakes adds to errors about the words of a command line what was wanted: the nearest flag, or how the
// command is used.
func explainMistakes(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var bad *pflag.InvalidValueError
		if errors.As(err, &bad) {
			if want := wanted[bad.GetFlag().Value.Type()]; want != "" {
				return fmt.Errorf("--%s is %q, want %s", bad.GetFlag().Name, bad.GetValue(), want)
			}
		}
		var unknown *pflag.NotExistError
		if !errors.As(err, &unknown) {
			return err
		}
		if len(unknown.GetSpecifiedName()) < 2 {
			return hint.With(err, "%s --help lists the flags", cmd.CommandPath())
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := spelling.Nearest(unknown.GetSpecifiedName(), known); near != "" {
			return fmt.Errorf("%w, did you mean --%s?", err, near)
		}
		return hint.With(err, "%s --help lists the flags", cmd.CommandPath())
	})
	var explain func(cmd *cobra.Command)
	explain = func(cmd *cobra.Command) {
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					if strings.HasPrefix(err.Error(), "unknown command") { // cobra's words where no argument is wanted
						err = fmt.Errorf("%s takes flags alone, got %q", cmd.CommandPath(), args[0])
					}
					return hint.With(err, "usage: %s", cmd.UseLine())
				}
				return nil
			}
		}
		for _, c := range cmd.Commands() {
			explain(c)
		}
	}
	explain(root)
}
