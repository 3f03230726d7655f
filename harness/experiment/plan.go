package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// PlanError is returned when an experiment is to be resumed under another plan than the one that its runs were made
// with. To add seeds until the verdict suits, under one plan after another, makes wrong verdicts.
type PlanError struct {
	Run        string // its folder
	Has, Asked recipe.Plan
}

func (e *PlanError) Error() string {
	return fmt.Sprintf("the runs in %s were made with the plan %q, and %q is asked for", filepath.Dir(e.Run), e.Has, e.Asked)
}

// choosePlan settles which plan the comparison follows: that of the runs it goes on with, if any, or the recipe's, with
// what the experiment asks for.
func (e *Experiment) choosePlan() error {
	plan := over(e.Recipe.Verdict.Plan, e.Plan)
	if e.Resume {
		begun, err := e.begun()
		if err != nil {
			return err
		}
		if begun != nil {
			has := begun.Recipe.Verdict.Plan
			if asked := over(has, e.Plan); asked != has {
				return &PlanError{begun.Dir, has, asked}
			}
			if plan != has {
				e.Observe.note("the runs in %s go on with their plan: %v", e.Dir, has)
			}
			plan = has
		}
	}
	r := *e.Recipe
	r.Verdict.Plan = plan
	e.Recipe = &r
	return r.Verdict.CheckPlan()
}

// over is a plan with the fields that are asked for. One of another kind has another length.
func over(p, asked recipe.Plan) recipe.Plan {
	if asked.Kind != "" && asked.Kind != p.Kind {
		p = recipe.Plan{Kind: asked.Kind, MaxSeeds: recipe.DefaultMaxSeeds}
	}
	if asked.MaxSeeds != 0 {
		p.MaxSeeds = asked.MaxSeeds
	}
	return p
}

// begun is a run with the first seed that is there already; nil if there is none.
func (e *Experiment) begun() (*results.Run, error) {
	for _, a := range e.Arms {
		r, err := results.Open(filepath.Join(e.Dir, e.planned(a, e.FirstSeed).Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			return r, nil
		}
	}
	return nil, nil
}

// seeds is how many seeds follow the first one at most.
func (e *Experiment) seeds() int {
	switch plan := e.Recipe.Verdict.Plan; {
	case e.Seeds > 0:
		return e.Seeds
	case e.follows() && len(e.Arms) == 1:
		return 1 // there is nothing to decide
	default:
		return plan.MaxSeeds
	}
}

// follows reports whether the plan decides how many seeds are trained.
func (e *Experiment) follows() bool {
	return e.Seeds == 0 && e.Recipe.Verdict.Plan.Kind == recipe.SequentialPlan
}
