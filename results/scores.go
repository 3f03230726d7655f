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
	if err := r.readOptional(ScoresFile(phase), mostScores, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Title(), err)
	}
	return s, nil
}

// PredictionsFile is the file in a run's folder that has the answers to the questions of a phase.
func PredictionsFile(phase string) string { return phase + ".predictions.json" }

// Answers reads the answers to the questions of a phase by their ids; nil if the run kept none.
func (r *Run) Answers(phase string) (map[string]string, error) {
	var given map[string]string
	if err := r.readOptional(PredictionsFile(phase), mostScores, &given); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Title(), err)
	}
	return given, nil
}
