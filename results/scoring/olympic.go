package scoring

import (
	"fmt"
	"math"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// MLPerfScore is the score of an arm: the mean of the measured seconds to the target without the fastest and the
// slowest run. They count from run_start to run_stop: training and the evaluations up to the target.
type MLPerfScore struct {
	Race
	MeanSeconds float64  // measured; Infinity when more than one run did not reach the target
	MeanSamples float64  // likewise
	Test        *RCPTest // nil: there is no reference to test against
}

// Score is the mean, multiplied by the factor of the test for runs that converged faster than the reference by chance.
func (s *MLPerfScore) Score() float64 {
	if s.Test == nil {
		return s.MeanSeconds
	}
	return s.MeanSeconds * float64(s.Test.Normalization)
}

// MLPerf scores runs of one recipe arm by arm, for the target of a phase ("": the last that has one), and tests them
// against reference points if there are any.
func MLPerf(runs []*results.Run, phase string, reference []ReferencePoint) ([]MLPerfScore, error) {
	races, err := Races(runs, phase)
	if err != nil {
		return nil, err
	}
	var list []MLPerfScore
	for _, r := range races {
		s := MLPerfScore{Race: r, MeanSeconds: statistics.OlympicMean(r.Clock), MeanSamples: statistics.OlympicMean(r.Samples)}
		if math.IsNaN(s.MeanSeconds) {
			return nil, fmt.Errorf("%s has %d runs: an olympic mean takes 3 or more", r.Arm, len(r.Clock))
		}
		if reference != nil {
			test, err := CheckConvergence(reference, float64(r.Batch), r.Samples)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Arm, err)
			}
			s.Test = &test
		}
		list = append(list, s)
	}
	return list, nil
}
