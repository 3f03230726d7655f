package regression

import (
	"errors"
	"fmt"
	"io/fs"

	"harness.invalid/core/bounded"
	"harness.invalid/core/recipe"
)

// mostBaseline is the size of a baseline that is read.
const mostBaseline = 64 * bounded.MiB

// ReadFile reads a baseline from a file.
func ReadFile(path string) (*Baseline, error) {
	text, err := bounded.ReadFile(path, mostBaseline)
	if err != nil {
		return nil, err
	}
	return ReadBaseline(path, text)
}

// Inherit takes over what people wrote into the file that the baseline replaces: waivers and tolerances, those of
// metrics where the recipe still has them. A file that does not exist leaves nothing.
func (b *Baseline) Inherit(path string) error {
	before, err := ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	metrics := b.Tolerances.Metrics
	for name, v := range before.Tolerances.Metrics {
		if _, ok := metrics[name]; ok {
			metrics[name] = v
		}
	}
	b.Waivers, b.Tolerances = before.Waivers, before.Tolerances
	b.Tolerances.Metrics = metrics
	return nil
}

// FirstSeed returns the first of n seeds in a row that repeat the baseline's first n runs of each arm.
func (b *Baseline) FirstSeed(n int) (uint64, error) {
	runs := b.Arms[0].Runs
	if n < 1 || n > len(runs) {
		return 0, fmt.Errorf("--seeds is %d, and the baseline has %d", n, len(runs))
	}
	first := runs[0].Seed
	for i := range n {
		if runs[i].Seed != first+uint64(i) {
			return 0, fmt.Errorf("--seeds %d: the baseline's seeds are not consecutive: train them yourself and name the runs", n)
		}
	}
	return first, nil
}

// CheckRecipe reports a recipe that runs of the baseline were not trained with.
func (b *Baseline) CheckRecipe(r *recipe.Recipe) error {
	if got := r.Fingerprint(); got != b.Fingerprint {
		return fmt.Errorf("recipe %s has fingerprint %.12s, the baseline's has %.12s: save a new baseline if it was changed on purpose",
			r.Name, got, b.Fingerprint)
	}
	return nil
}
