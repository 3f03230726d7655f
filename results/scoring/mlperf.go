// Package scoring applies the rules of benchmarks to runs: MLPerf's reference convergence points (mlperf.go) and
// AlgoPerf's performance profiles and leaderboard (algoperf.go). Runs flow in as times and steps to a target
// (Races).
package scoring

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// ReferencePoint is one of MLPerf's reference convergence points: how long the reference took to converge at one
// batch size.
type ReferencePoint struct {
	Name  string
	Batch float64
	Runs  int
	Mean  float64 // olympic mean of samples (or epochs) to converge
	SD    float64 // of all runs, population
}

// ReadReferencePoints parses a file such as rcps_bert.json of mlcommons/logging: an object of points with "BS" and
// "Epochs to converge".
func ReadReferencePoints(text []byte) ([]ReferencePoint, error) {
	var file map[string]struct {
		BS       float64   `json:"BS"`
		Converge []float64 `json:"Epochs to converge"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	var points []ReferencePoint
	for name, p := range file {
		if p.BS <= 0 || len(p.Converge) < 4 {
			return nil, fmt.Errorf("point %q: BS is %g and %d runs converged, want a batch size and 4 runs or more "+
				"under \"Epochs to converge\"", name, p.BS, len(p.Converge))
		}
		points = append(points, ReferencePoint{name, p.BS, len(p.Converge), statistics.OlympicMean(p.Converge),
			math.Sqrt(stat.PopVariance(p.Converge, nil))})
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("the file has no point")
	}
	slices.SortFunc(points, func(a, b ReferencePoint) int { return cmp.Compare(a.Batch, b.Batch) })
	if i := slices.IndexFunc(points[1:], func(p ReferencePoint) bool {
		return slices.ContainsFunc(points, func(q ReferencePoint) bool { return q.Name != p.Name && q.Batch == p.Batch })
	}); i >= 0 {
		return nil, fmt.Errorf("two points have the batch size %g", points[i+1].Batch)
	}
	return points, nil
}

// rcpAlpha is the p value that the rules set, and olympic the runs that an olympic mean leaves out.
const (
	rcpAlpha = 0.05
	olympic  = 2
)

// least is the smallest mean of so many runs that is not faster than the point by more than chance, by a one-sided
// t test of two samples with equal variance, both of which lose two runs to the olympic mean:
//
//	mean - t_{0.95, ν} · sd · √(1/n_ref + 1/n)    ν = n_ref + n - 2
//
// It is the limit of rcp_checker's bisection.
func (p ReferencePoint) least(runs int) float64 {
	ref, n := float64(p.Runs-olympic), float64(runs-olympic)
	t := distuv.StudentsT{Sigma: 1, Nu: ref + n - 2}.Quantile(1 - rcpAlpha)
	return p.Mean - t*p.SD*math.Sqrt(1/ref+1/n)
}

// prune drops the points below the batch size that converges fastest, and those that lie above the line between
// their neighbours. As rcp_checker does, it goes through the points once: after a point is dropped, the next one is
// held against its new neighbours, and the one before is not looked at again.
func prune(points []ReferencePoint) []ReferencePoint {
	fastest := 0
	for i, p := range points {
		if p.Mean < points[fastest].Mean {
			fastest = i
		}
	}
	kept := slices.Clone(points[fastest:])
	for i := 1; i < len(kept)-1; {
		if mean, _ := between(kept[i-1], kept[i+1], kept[i].Batch); kept[i].Mean > mean {
			kept = slices.Delete(kept, i, i+1)
		} else {
			i++
		}
	}
	return kept
}

// between interpolates linearly at a batch size.
func between(a, b ReferencePoint, batch float64) (mean, sd float64) {
	f := (batch - a.Batch) / (b.Batch - a.Batch)
	return a.Mean + f*(b.Mean-a.Mean), a.SD + f*(b.SD-a.SD)
}

// interpolate makes a point between two. rcp_checker gives it twice as many runs as a submission has, all of which
// count.
func interpolate(a, b ReferencePoint, batch float64, runs int) ReferencePoint {
	mean, sd := between(a, b, batch)
	return ReferencePoint{fmt.Sprintf("between %s and %s", a.Name, b.Name), batch, 2*runs + olympic, mean, sd}
}

// RCPTest is whether runs converged no faster than the reference.
type RCPTest struct {
	Batch     float64        `json:"batch"`
	Runs      int            `json:"runs"`
	Mean      results.Number `json:"mean"`  // olympic, of the runs
	Point     string         `json:"point"` // that they were compared with
	Reference results.Number `json:"reference"`
	Least     results.Number `json:"least"` // the least mean that passes
	Passed    bool           `json:"passed"`
	// Normalization is the factor for times of runs that converged faster than the reference, but by no more than
	// chance; 1 otherwise.
	Normalization results.Number `json:"normalization"`
	Reason        string         `json:"reason"`
}

// CheckConvergence is MLPerf's test against reference convergence points. It takes the samples to converge at a
// batch size, Infinity for a run that did not; one such run is allowed, and counts as the slowest. Sources:
// mlcommons/training_policies, training_rules.adoc, section RCP; mlcommons/logging, rcp_checker.py, with the pruned
// points that its package checker asks for.
func CheckConvergence(points []ReferencePoint, batch float64, samples []float64) (RCPTest, error) {
	r := RCPTest{Batch: batch, Runs: len(samples), Mean: results.Number(statistics.OlympicMean(samples)), Normalization: 1}
	if len(samples) < 3 {
		return r, fmt.Errorf("%d runs: an olympic mean takes 3 or more", len(samples))
	}
	if math.IsInf(float64(r.Mean), 1) {
		r.Reason = "more than one run did not converge"
		return r, nil
	}
	against := func(p ReferencePoint) {
		r.Point, r.Reference, r.Least = p.Name, results.Number(p.Mean), results.Number(p.least(len(samples)))
		// The rules' limit is a speed-up, mean/least, and passes at it.
		r.Passed = r.Mean >= r.Least
	}
	kept := prune(points)
	i, exact := slices.BinarySearchFunc(kept, batch, func(p ReferencePoint, b float64) int { return cmp.Compare(p.Batch, b) })
	switch {
	case exact:
		against(kept[i])
	case i == len(kept):
		r.Reason = fmt.Sprintf("no point is at or above batch size %g: the reference has to be run there", batch)
		return r, nil
	case i == 0:
		against(kept[0])
	default:
		against(interpolate(kept[i-1], kept[i], batch, len(samples)))
	}
	switch {
	case !r.Passed:
		r.Reason = "faster than the reference by more than chance"
	case r.Mean < r.Reference:
		r.Normalization = r.Reference / r.Mean
		r.Reason = "faster than the reference, by no more than chance: times are multiplied"
	default:
		r.Reason = "not faster than the reference"
	}
	return r, nil
}
