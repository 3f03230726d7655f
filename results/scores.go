package results

import (
	"fmt"
)

// Scores are the scores of single examples, by metric and by the example's id. The metric is their mean.
type Scores map[string]map[string]float64

// ScoresFile is the file in a run's folder that has the scores of a phase.
func ScoresFile(phase string) string { return phase + ".scores.json" }

// Scores reads the scores of single examples of a phase; nil if the run kept none.
func (r *Run) Scores(phase string) (Scores, error) {
	var s Scores
	if err := readOptional(r.path(ScoresFile(phase)), &s); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Title(), err)
	}
	return s, nil
}
