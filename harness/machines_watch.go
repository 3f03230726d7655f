package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"harness.invalid/harness/dispatch"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
)

// print prints what would be submitted first.
func (m *machineFlags) print(cmd *cobra.Command, e experiment.Experiment) error {
	d := e.Executor.(*dispatch.Dispatcher)
	s, plan, err := experiment.Plan(cmd.Context(), e, d.Wave())
	if err != nil {
		return advise(err)
	}
	text, err := d.DryRun(s, plan)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// compare trains the runs of a comparison and prints its table.
func (m *machineFlags) compare(cmd *cobra.Command, t *training, plan *planFlags, f report.Format) error {
	if err := m.apply(&t.Experiment, cmd.Flags()); err != nil {
		return err
	}
	if m.dryRun && t.Executor == nil {
		return t.rehearse(cmd, f)
	}
	if m.dryRun {
		return m.print(cmd, t.Experiment)
	}
	if len(t.Arms) == 1 && !t.Noise && !t.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "one arm, and nothing to compare it with: name a second backend or optimizer, such as "+
			"--backends %s\n", hint.Quote(other(t.Arms[0])))
	}
	o, err := t.runAndCompare(cmd, f)
	if err == nil && !t.quiet {
		plan.after(cmd.Context(), cmd.ErrOrStderr(), o)
	}
	return m.left(cmd, err)
}

// watch goes on with the runs that were submitted in a folder, and prints their table.
func (m *machineFlags) watch(cmd *cobra.Command, t *training, dir string, f report.Format) (err error) {
	store := t.store
	if t.Experiment, m.settings, err = dispatch.Load(dir); err != nil {
		return err
	}
	if t.store = store; store == "" {
		t.store = t.Index
	}
	if err := m.use(&t.Experiment); err != nil {
		return err
	}
	_, err = t.runAndCompare(cmd, f)
	return m.left(cmd, err)
}

// left says how runs are looked after that go on by themselves, and takes that for no error if they were to.
func (m *machineFlags) left(cmd *cobra.Command, err error) error {
	var left *dispatch.DetachedError
	if !errors.As(err, &left) {
		return err
	}
	if left.Err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%v; look after them with: harness runs watch %s\n", left, hint.Quote(left.Dir))
		return nil
	}
	return hint.With(err, "look after them with: harness runs watch %s", hint.Quote(left.Dir))
}
