package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/hint"
)

// Exit codes. Shells add 128 to a signal's number, and so does harness when it was asked to stop.
const (
	exitOK          = 0
	exitFailed      = 1 // the answer is no: a plugin did not pass, a result is out of tolerance
	exitError       = 2 // no answer: a check that can't tell, wrong usage, bad input, a plugin that died
	exitInterrupted = 130
)

// errFailed is returned by a command that did its work and whose answer is no; the reason has been printed.
var errFailed = errors.New("failed")

func main() {
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute is the whole program: it runs one command line and returns the exit code.
func execute(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		// The first signal ends the run in order; from then on a second one kills.
		<-ctx.Done()
		stop()
	}()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := unknownCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFailed):
		return exitFailed
	case errors.Is(err, errUndecided):
		return exitError
	}
	code, stopped := exitError, ""
	if ctx.Err() != nil {
		code, stopped = exitInterrupted, "stopped: "
	}
	fmt.Fprintf(errOut, "harness: %s%v\n", stopped, err)
	if advice := hint.Of(err); advice != "" {
		fmt.Fprintf(errOut, "hint: %s\n", advice)
	}
	return code
}

// unknownCommand reports a word that is no command of the group before it: cobra shows the group's help instead, as
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

// withHint adds to an error what to do about it.
func withHint(err error, format string, args ...any) error { return hint.With(err, format, args...) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "harness",
		Short: "Train the same BERT on several backends and compare accuracy and time",
		Long: `harness trains the same BERT recipe on several backends, each a plugin in a process of its own, and says whether they
reach the same accuracy and how long they take.`,
		Example: strings.TrimPrefix(`
  harness compare --backends ipu,gpu-ref
  harness compare --backends gpu-ref:fp32,gpu-ref:fp16,ipu --seeds 3 --out runs/formats
  harness run --backend ipu --recipe quick --seed 1
  harness plugin list`, "\n"),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Compare", []*cobra.Command{newCompare()}},
		{"Train", []*cobra.Command{newRun(), newFinetune(), newPredict(), newEvaluate(), newTune()}},
		{"Look", []*cobra.Command{newReport(), newServe(), newPlot(), newRuns(), newExport()}},
		{"Data and models", []*cobra.Command{newRecipe(), newData(), newVocab(), newTokenize(), newConvert(), newInspect()}},
		{"Machines", []*cobra.Command{newEstimate(), newProfile(), newBench()}},
		{"Extend", []*cobra.Command{newPlugin()}},
		{"Check", []*cobra.Command{newCheck(), newBaseline(), newScore(), newMLPerf(), newAlgoPerf()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	explainMistakes(root)
	return root
}

// explainMistakes adds to errors about the words of a command line what was wanted: the nearest flag, or how the
// command is used.
func explainMistakes(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
			return err
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := spelling.Nearest(unknown.GetSpecifiedName(), known); near != "" {
			return fmt.Errorf("%w, did you mean --%s?", err, near)
		}
		return withHint(err, "%s --help lists the flags", cmd.CommandPath())
	})
	var explain func(cmd *cobra.Command)
	explain = func(cmd *cobra.Command) {
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return withHint(err, "usage: %s", cmd.UseLine())
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
