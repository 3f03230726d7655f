package baselines_test

import (
	"errors"
	"io/fs"
	"testing"

	"harness.invalid/core/recipe"
	"harness.invalid/results/baselines"
)

// TestBaselines: the committed baselines can be read, and are of the recipes as they are now.
func TestBaselines(t *testing.T) {
	names := baselines.Names()
	if len(names) == 0 {
		t.Fatal("there is no baseline")
	}
	for _, name := range names {
		b, err := baselines.Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		r, err := recipe.Load(b.Recipe)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := r.Fingerprint(); got != b.Fingerprint {
			t.Errorf("baseline %s is of fingerprint %.12s, recipe %s has %.12s: train it again and save a new one", name, b.Fingerprint,
				b.Recipe, got)
		}
	}
	if _, err := baselines.Open("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}
