package verdict

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"harness.invalid/results"
)

// Noise is an A/A comparison: the baseline against itself with other seeds. Whatever differs there is chance.
type Noise struct {
	Seeds      []uint64 `json:"seeds"`       // that are paired with the arm
	OtherSeeds []uint64 `json:"other_seeds"` // of the baseline alone
	// Difference is the mean over the other seeds minus the mean over the seeds.
	Difference results.Number `json:"difference"`
	// Floor bounds, with probability 1-α, how far apart the means of two groups of baseline runs lie, each as large as the
	// number of pairs n: t_{1-α/2} · s · √(2/n), with s the pooled standard deviation of both groups.
	Floor results.Number `json:"floor"`
}

// noise compares the baseline's runs with the paired seeds to those with seeds that no other arm was asked for; nil
// unless there are two or more of each, all with values. At a look of a sequential plan it takes as many of them as
// there are pairs, so that later ones change nothing.
func (c *Comparison) noise(d Difference, paired []uint64, asMany bool) *Noise {
	baseline := c.Arms[0].Arm
	var x, y []float64
	n := Noise{}
	isPaired := make(map[uint64]bool, len(paired))
	for _, seed := range paired {
		isPaired[seed] = true
	}
	c.visits += len(c.Runs)
	for i := range c.Runs {
		r := &c.Runs[i]
		if r.Arm != baseline || !r.Complete() {
			continue
		}
		v := r.phaseMetric(d.Phase, d.Metric)
		switch {
		case isPaired[r.Seed]:
			x, n.Seeds = append(x, v), append(n.Seeds, r.Seed)
		case c.InNoise(baseline, r.Seed) && (!asMany || len(y) < len(paired)):
			y, n.OtherSeeds = append(y, v), append(n.OtherSeeds, r.Seed)
		}
	}
	if len(x) < 2 || len(y) < 2 {
		return nil
	}
	mx, vx := stat.MeanVariance(x, nil)
	my, vy := stat.MeanVariance(y, nil)
	df := float64(len(x) + len(y) - 2)
	s := math.Sqrt((float64(len(x)-1)*vx + float64(len(y)-1)*vy) / df)
	n.Difference = results.Number(my - mx)
	n.Floor = results.Number(distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1-c.Alpha/2) * s * math.Sqrt(2/float64(len(x))))
	if math.IsNaN(float64(n.Floor)) || math.IsInf(float64(n.Floor), 0) {
		return nil
	}
	return &n
}

// noteNoise tells which runs make the A/A comparison.
func (c *Comparison) noteNoise() {
	if len(c.Comparisons) == 0 {
		return
	}
	for _, d := range c.Comparisons[0].Metrics {
		if d.Noise == nil {
			continue
		}
		c.Notes = append(c.Notes, fmt.Sprintf("%s with seeds %s is compared with its own runs with seeds %s (A/A), which gives the noise floor",
			c.Arms[0].Arm, joinSeeds(d.Noise.OtherSeeds), joinSeeds(d.Noise.Seeds)))
		return
	}
}

func joinSeeds(seeds []uint64) string {
	text := make([]string, len(seeds))
	for i, s := range seeds {
		text[i] = fmt.Sprint(s)
	}
	return strings.Join(text, ", ")
}
