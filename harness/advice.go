package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/harness/estimate"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
)

// advise says in terms of the command line what to do about an error of an experiment.
func advise(err error) error {
	var (
		source *experiment.SourceError
		unfit  *experiment.UnfitError
		run    *experiment.RunError
	)
	switch {
	case errors.Is(err, experiment.ErrNoFiles):
		return hint.With(fmt.Errorf("--%w", err), "use a recipe for files, such as --recipe tiny-wiki-squad, or --set data.kind=files")
	case errors.Is(err, experiment.ErrNoTask):
		return fmt.Errorf("--task is not given, want one of %s", strings.Join(tasks.Names(), ", "))
	case errors.Is(err, experiment.ErrNoExamples):
		return errors.New("want --train and --dev: what to train and to evaluate on")
	case errors.As(err, &source):
		return fmt.Errorf("--%w", err) // the field is the flag's name
	case errors.As(err, &unfit):
		return hint.With(err, "%s", unfitAdvice(unfit))
	case errors.As(err, &run) && run.Stopped:
		return hint.With(err, "go on with: the same command with --resume --out %s", run.Dir)
	case errors.As(err, &run) && errors.Is(err, fs.ErrExist):
		return hint.With(err, "go on with the runs in the folder with --resume, or start in another --out")
	}
	return planAdvice(err)
}

// unfitAdvice says what makes a recipe fit its system, and how it is trained without one.
func unfitAdvice(u *experiment.UnfitError) string {
	spec := u.Arm.Spec().Base()
	var advice, flags []string
	for _, p := range u.Phases {
		if p.Advice != "" && !slices.Contains(advice, p.Advice) {
			advice = append(advice, p.Advice)
		}
		if p.Remedy != nil {
			flags = append(flags, estimate.Settings(u.Recipe, spec, p.Phase, &p.Program, p.Remedy)...)
		}
	}
	without := "to train it here without modelled times: add --set " + hint.Quote(estimate.Setting("none", spec, "options", "system"))
	if len(advice) == 0 {
		return without
	}
	return estimate.FitHint(strings.Join(advice, "; "), strings.Join(flags, " ")) + "\nhint: " + without
}
