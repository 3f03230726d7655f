package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/inference"
)

// resolve reads the flags.
func (a *answering) resolve() (err error) {
	if formats := []string{"table", "json"}; !slices.Contains(formats, a.format) {
		return fmt.Errorf("format is %q, want table or json%s", a.format, spelling.Hint(a.format, formats))
	}
	if a.Arm, err = experiment.ParseArm(a.backend, ""); err != nil {
		return err
	}
	if a.settings.Scenario, err = inference.ParseScenario(a.scenario); err != nil {
		return err
	}
	a.Transport = host.Transport(a.transport)
	if err := a.check(); err != nil {
		return err
	}
	if slices.Contains(bert.SizeNames(), a.tuned.Model) {
		if a.task == "" {
			a.task = "squad"
		}
		a.Random.Size = a.tuned.Model
		a.Random.Task, err = benchTask(a.task)
		return err
	}
	if info, err := os.Stat(a.tuned.Model); err != nil || !info.IsDir() {
		return fmt.Errorf("--model %s is no folder, and no published size%s (known: %s)", a.tuned.Model,
			spelling.Hint(a.tuned.Model, bert.SizeNames()), strings.Join(bert.SizeNames(), ", "))
	}
	if a.table {
		return errors.New("--table is of a published size: lengths and batches are its own")
	}
	if len(a.Files) == 0 {
		return hint.With(errors.New("a fine-tuned model answers examples, and --data names no file"), "--data dev-v1.1.json")
	}
	a.tuned.Task = a.task
	if a.Recipe, err = a.tuned.LoadTrained(); err != nil {
		return advise(err)
	}
	return nil
}

// check reports flags out of range.
func (a *answering) check() error {
	for _, n := range append(slices.Clone(a.batches), a.Batch) {
		if n < 1 || n > 4096 {
			return fmt.Errorf("batch is %d, want 1 to 4096", n)
		}
	}
	for _, n := range append(slices.Clone(a.lengths), a.Random.Length) {
		if n < 8 || n > 512 {
			return fmt.Errorf("a sequence has %d tokens, want 8 to 512", n)
		}
	}
	if len(a.lengths) == 0 || len(a.batches) == 0 {
		return fmt.Errorf("the table has %d lengths and %d batches, want at least one of each", len(a.lengths), len(a.batches))
	}
	if !(a.Random.Fill > 0 && a.Random.Fill <= 1) {
		return fmt.Errorf("--fill is %g, want a share above 0, up to 1", a.Random.Fill)
	}
	return nil
}
