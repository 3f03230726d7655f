package verdict

import (
	"math"
	"slices"
	"sort"

	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// areaBetween is the mean vertical distance b - a of two curves over the stretch of x that both have: the area between them, with its sign, by
// the length of the stretch. The curves are straight between their points. NaN where they have no stretch in common.
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

// valueAt is a curve's value at v, which lies on it.
func valueAt(curve []results.Point, x func(results.Point) float64, v float64) float64 {
	i := sort.Search(len(curve), func(i int) bool { return x(curve[i]) >= v })
	if i == 0 || x(curve[i]) == v {
		return curve[i].Value
	}
	a, b := curve[i-1], curve[i]
	return a.Value + (v-x(a))/(x(b)-x(a))*(b.Value-a.Value)
}

func byStep(p results.Point) float64 { return float64(p.Step) }

func bySeconds(p results.Point) float64 { return p.Seconds }

// mostPoints is how many points of a curve are kept in a comparison.
const mostPoints = 100

// Band is a curve of an arm over its seeds.
type Band struct {
	results.Arm
	Phase  string      `json:"phase"`
	Metric string      `json:"metric"` // training_loss, or a metric of the evaluations
	Points []BandPoint `json:"points"`
}

// BandPoint is the mean and the standard deviation over the runs that came to this step.
type BandPoint struct {
	Step    int            `json:"step"`
	Seconds results.Number `json:"measured_seconds"` // mean
	statistics.Sample
}

// newBand sums up the curves of several runs of an arm. All runs of a recipe have the same steps, but for those that broke off.
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
		b.Points = append(b.Points, BandPoint{Step: s, Seconds: results.Number(statistics.Mean(seconds[s])), Sample: statistics.NewSample(values[s])})
	}
	return b
}
