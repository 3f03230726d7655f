package results

import (
	"fmt"
)

// Scores are what single examples count, by metric and by the example's id: the metric is their mean.
type Scores map[string]map[string]float64

// ScoresFile is where a run keeps the scores of a phase, in its folder.
func ScoresFile(phase string) string { return phase + ".scores.json" }

// Scores reads the scores of single examples of a phase; nil where the run kept none.
func (r *Run) Scores(phase string) (Scores, error) {
	var s Scores
	if err := readOptional(r.path(ScoresFile(phase)), &s); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Title(), err)
	}
	return s, nil
}
