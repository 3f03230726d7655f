package estimate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/results/verdict"
)

// FullSize models the counterpart of a recipe on the machine of a backend. The bounds of its recipes add up, since one
// machine model is likely to be off in the same direction for all of them.
func FullSize(ctx context.Context, backend, training string, f recipe.FullSize) (verdict.FullSize, error) {
	out := verdict.FullSize{Backend: backend, Training: training, Recipes: f.Recipes, Inside: true}
	spec := recipe.Spec{Name: backend, Precision: f.Precision}
	for _, name := range f.Recipes {
		e, err := New(Request{Backend: spec.String(), Recipe: name, System: f.System})
		if err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
		if err := e.addTo(ctx, &out); err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

func (e *Estimation) addTo(ctx context.Context, out *verdict.FullSize) (err error) {
	s, err := e.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list, err := s.ModelAll(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		if r.Steps == 0 {
			return fmt.Errorf("phase %s: its number of steps is not known without its data", r.Phase)
		}
		hours := r.TotalSeconds() / 3600
		out.System, out.Precision, out.Hours = r.System, r.Program.Precision, out.Hours+hours
		why := noConfidence
		if c := r.Confidence; c != nil {
			out.Low += hours * r.SequencesPerSecond / c.High
			out.High += hours * r.SequencesPerSecond / c.Low
			out.Level, why = c.Level, c.Why
		}
		if c := r.Confidence; c == nil || !c.Inside {
			out.Inside = false
		}
		if !strings.Contains(out.Why, why) {
			out.Why = strings.TrimPrefix(out.Why+"; "+why, "; ")
		}
	}
	return nil
}
