package experiment

import (
	"errors"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
)

// UnfitError is returned when the recipe names a system that can't run it on an arm. Phases contain the remedies
// that the backend knows.
type UnfitError struct {
	Recipe *recipe.Recipe
	Arm    Arm
	Phases train.Unfit
	Err    error
}

func (u *UnfitError) Error() string { return u.Err.Error() }

// Unwrap returns the error without the remedies.
func (u *UnfitError) Unwrap() error { return u.Err }

// explainUnfit wraps an error caused by a train.Unfit in an UnfitError, and returns any other as it is.
func (s *Session) explainUnfit(err error, a Arm) error {
	var phases train.Unfit
	if !errors.As(err, &phases) {
		return err
	}
	return &UnfitError{a.recipe(s.Recipe), a, phases, err}
}
