package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/harness/estimate"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/fetch"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/pretrained"
)

// advise says in terms of the command line what to do about an error of an experiment.
func advise(err error) error {
	var (
		source *experiment.SourceError
		model  *pretrained.MissingError
		unfit  *experiment.UnfitError
	)
	switch {
	case errors.Is(err, experiment.ErrNoFiles):
		return hint.With(fmt.Errorf("--%w", err), "use a recipe for files, such as --recipe tiny-wiki-squad, or --set data.kind=files")
	case errors.Is(err, experiment.ErrNoTask):
		return fmt.Errorf("--task is not given, want one of %s", strings.Join(tasks.Names(), ", "))
	case errors.Is(err, experiment.ErrNoExamples):
		return errors.New("want --train and --dev: what to train and to evaluate on")
	case errors.As(err, &model):
		if name := filepath.Base(model.Path); slices.Contains(fetch.Names(), name) {
			return hint.With(err, "harness data fetch %s loads it, and prints the paths of its files", name)
		}
		return hint.With(err, "a model of Hugging Face comes with git and git-lfs: %s", cloning(model.Path))
	case errors.As(err, &source):
		return fmt.Errorf("--%w", err) // the field is the flag's name
	case errors.As(err, &unfit):
		return hint.With(err, "%s", unfitAdvice(unfit))
	}
	return planAdvice(err)
}

// cloning is the command that fetches a model of Hugging Face into a folder, by the name that the folder has there.
func cloning(path string) string {
	name := filepath.ToSlash(path)
	if parts := strings.Split(name, "/"); len(parts) != 2 || filepath.IsAbs(path) {
		name = "google-bert/" + parts[len(parts)-1] // where those of the first paper are
	}
	return "git clone https://huggingface.co/" + hint.Quote(name) + " " + hint.Quote(path)
}

// adviseRuns says in terms of the command line what to do about an error of runs.
func adviseRuns(ctx context.Context, err error) error {
	var run *experiment.RunError
	switch {
	case errors.As(err, &run) && run.Stopped:
		return hint.With(err, "go on with: %s", goOn(ctx, run.Dir))
	case errors.As(err, &run) && errors.Is(err, fs.ErrExist):
		return hint.With(err, "go on with the runs in the folder, or start in another --out: %s", goOn(ctx, run.Dir))
	}
	return advise(err)
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
