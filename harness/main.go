package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"harness.invalid/harness/hint"
)

// Exit codes. Shells add 128 to a signal's number, and so does harness when it was asked to stop.
const (
	exitOK          = 0
	exitFailed      = 1 // the answer is no: a plugin did not pass, a result is out of tolerance
	exitError       = 2 // could not run: wrong usage, bad input, a plugin that died
	exitUndecided   = 3 // a check that ran, and whose runs are too few, or incomplete, to say yes or no
	exitInterrupted = 130
	exitPipe        = 141 // nobody reads what is printed, as after "| head"
)

// errFailed is returned by a command that did its work and whose answer is no; the reason has been printed.
var errFailed = errors.New("failed")

func main() {
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute is the whole program: it runs one command line and returns the exit code.
func execute(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, release := untilStopped(withArgs(context.Background(), args))
	defer release()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	out, errOut = output(out), newPrinter(errOut)
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
		return exitUndecided
	case errors.Is(err, errRequeue):
		fmt.Fprintf(errOut, "harness: %v\n", err)
		return exitRequeue
	}
	code, stopped := exitError, ""
	if errors.Is(err, syscall.EPIPE) && outputClosed() {
		return exitPipe
	}
	if ctx.Err() != nil {
		code, stopped = exitInterrupted, "stopped: "
	}
	fmt.Fprintf(errOut, "harness: %s%s\n", stopped, hint.Text(err))
	if advice := hint.Of(err); advice != "" {
		fmt.Fprintf(errOut, "hint: %s\n", advice)
	}
	return code
}

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
		{"Compare", []*cobra.Command{newCompare(), newBenchmark(), newVerdict()}},
		{"Train", []*cobra.Command{newRun(), newFinetune(), newPredict(), newAsk(), newEvaluate(), newTune()}},
		{"Look", []*cobra.Command{newReport(), newServe(), newPlot(), newRuns(), newExport()}},
		{"Data and models", []*cobra.Command{newRecipe(), newData(), newVocab(), newTokenize(), newConvert(), newInspect()}},
		{"Machines", []*cobra.Command{newEstimate(), newProfile(), newBench()}},
		{"Extend", []*cobra.Command{newPlugin(), newFormats()}},
		{"Check", []*cobra.Command{newCheck(), newBaseline(), newScore(), newMLPerf(), newAlgoPerf()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	addVersion(root)
	addSandbox(root)
	explainMistakes(root)
	fitHelp(root)
	return root
}
