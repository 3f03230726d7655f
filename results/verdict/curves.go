package verdict

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Band is a curve of an arm over its seeds.
type Band struct {
	results.Arm
	Phase  string      `json:"phase"`
	Metric string      `json:"metric"` // training_loss, or a metric of the evaluations
	Points []BandPoint `json:"points"`
}

// BandPoint is the mean and the standard deviation over the runs that got to this step.
type BandPoint struct {
	Step    int            `json:"step"`
	Seconds results.Number `json:"measured_seconds"` // mean
	statistics.Sample
}

// newBand summarizes the curves of several runs of an arm. All runs of a recipe have the same steps, except those
// that broke off.
func newBand(arm results.Arm, phase, metric string, curves [][]results.Point) Band {
	b := Band{Arm: arm, Phase: phase, Metric: metric, Points: []BandPoint{}}
	values, seconds := map[int][]float64{}, map[int][]float64{}
	var steps []int
	for _, curve := range curves {
		for _, p := range curve {
			if values[p.Step] == nil {
				steps = append(steps, p.Step)
			}
			values[p.Step] = append(values[p.Step], p.Value)
			seconds[p.Step] = append(seconds[p.Step], p.Seconds)
		}
	}
	slices.Sort(steps)
	for _, s := range steps {
		b.Points = append(b.Points, BandPoint{
			Step: s, Seconds: results.Number(stat.Mean(seconds[s], nil)), Sample: statistics.NewSample(values[s]),
		})
	}
	return b
}

// mostPoints is how many points of a curve a comparison keeps.
const mostPoints = 100

// CurveDifference is how far the arm's curve runs from the baseline's, over the pairs.
type CurveDifference struct {
	Phase  string `json:"phase"`
	Metric string `json:"metric"` // TrainingLoss, or a metric of the evaluations
	// AreaBySteps is the signed area between the curves divided by its width: the mean distance arm - baseline at
	// the same step. AreaBySeconds is the same at the same measured time. Both cover the stretch that the curves
	// share.
	AreaBySteps   statistics.Paired `json:"area_by_steps"`
	AreaBySeconds statistics.Paired `json:"area_by_measured_seconds"`
	// Greatest is the greatest distance between the mean curves, found at AtStep.
	Greatest results.Number `json:"greatest"`
	AtStep   int            `json:"at_step"`
}

// curveDifference compares pairs of runs, x of the baseline and y of the arm; false if no pair has a curve of the
// metric.
func curveDifference(p *Pairing, phase, metric string, x, y []results.Curves, alpha float64) (CurveDifference, bool) {
	d := CurveDifference{Phase: phase, Metric: metric}
	var bySteps, byTime []float64
	a, b := make([][]results.Point, len(x)), make([][]results.Point, len(x))
	for i := range x {
		a[i], b[i] = results.Thin(x[i].Curve(metric), mostPoints), results.Thin(y[i].Curve(metric), mostPoints)
		if area := areaBetween(a[i], b[i], byStep); !math.IsNaN(area) {
			bySteps = append(bySteps, area)
		}
		if area := areaBetween(a[i], b[i], bySeconds); !math.IsNaN(area) {
			byTime = append(byTime, area)
		}
	}
	if len(bySteps) == 0 {
		return d, false
	}
	d.AreaBySteps = statistics.NewPaired(make([]float64, len(bySteps)), bySteps, alpha)
	d.AreaBySeconds = statistics.NewPaired(make([]float64, len(byTime)), byTime, alpha)
	base, arm := newBand(p.Baseline, phase, metric, a), newBand(p.Arm, phase, metric, b)
	for i := range min(len(base.Points), len(arm.Points)) {
		if base.Points[i].Step != arm.Points[i].Step {
			break // beyond the end of the runs of one arm
		}
		if v := arm.Points[i].Mean - base.Points[i].Mean; math.Abs(float64(v)) > math.Abs(float64(d.Greatest)) {
			d.Greatest, d.AtStep = v, base.Points[i].Step
		}
	}
	return d, true
}

// areaBetween is the mean vertical distance b - a of two curves over the stretch of x that they share: the signed
// area between them, divided by the length of the stretch. Points are joined by straight lines. NaN if there is no
// common stretch.
func areaBetween(a, b []results.Point, x func(results.Point) float64) float64 {
	if len(a) < 2 || len(b) < 2 {
		return math.NaN()
	}
	from, to := max(x(a[0]), x(b[0])), min(x(a[len(a)-1]), x(b[len(b)-1]))
	if !(to > from) {
		return math.NaN()
	}
	corners := []float64{from, to}
	for _, curve := range [][]results.Point{a, b} {
		for _, p := range curve {
			if v := x(p); v > from && v < to {
				corners = append(corners, v)
			}
		}
	}
	sort.Float64s(corners)
	area := 0.0
	distance := func(v float64) float64 { return valueAt(b, x, v) - valueAt(a, x, v) }
	last := distance(from)
	for i := 1; i < len(corners); i++ {
		d := distance(corners[i])
		area += (corners[i] - corners[i-1]) * (last + d) / 2
		last = d
	}
	return area / (to - from)
}

// valueAt is a curve's value at v, which must be within the curve.
func valueAt(curve []results.Point, x func(results.Point) float64, v float64) float64 {
	i := sort.Search(len(curve), func(i int) bool { return x(curve[i]) >= v })
	if i == 0 || x(curve[i]) == v {
		return curve[i].Value
	}
	a, b := curve[i-1], curve[i]
	return a.Value + (v-x(a))/(x(b)-x(a))*(b.Value-a.Value)
}

func byStep(p results.Point) float64    { return float64(p.Step) }
func bySeconds(p results.Point) float64 { return p.Seconds }
