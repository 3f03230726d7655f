package regression

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"harness.invalid/results"
)

// exact adds a fact that is equal or not.
func (c *Check) exact(name, baseline, now, otherwise string) bool {
	f := Fact{Name: name, Exact: true, Standing: Holds, Baseline: baseline, Now: now, Reason: "equal"}
	if baseline != now {
		f.Standing, f.Reason = Regressed, otherwise
	}
	c.Facts = append(c.Facts, f)
	return baseline == now
}

// run adds the facts of a run against the baseline's run with the same seed, and reports whether their losses have
// the same bits.
func (c *Check) run(seed string, was, is BaselineRun, t Tolerances) bool {
	c.exact(seed+" batches", was.BatchDigest, is.BatchDigest, "the run took different batches, or took them in another order")
	for _, name := range slices.Sorted(maps.Keys(was.Modelled)) {
		if was.Kernels != is.Kernels && strings.Contains(name, ".target.") {
			continue // the time to the target is modelled, the step that reached it was trained
		}
		c.exact(seed+" "+name, was.Modelled[name], is.Modelled[name], "a modelled figure changed")
	}
	switch {
	case (was.Kernels == "" || is.Kernels == "") && was.LossDigest == is.LossDigest:
		return c.exact(seed+" losses", was.LossDigest, is.LossDigest, "") // nothing rounded otherwise, on whatever kernels
	case was.Kernels == "" || is.Kernels == "":
		c.Facts = append(c.Facts, Fact{Name: seed + " losses", Exact: true, Standing: NotCompared, Baseline: was.LossDigest,
			Now: is.LossDigest, Reason: "a run does not record its kernel path, which decides the last bits"})
		return false
	case was.Kernels == is.Kernels:
		where := "the bits of losses differ"
		switch {
		case was.Start != is.Start:
			where += fmt.Sprintf(", and so do those of the start model: it is %.12s, was %.12s", is.Start, was.Start)
		case was.LossDigest != is.LossDigest:
			where = partedAt(was, is)
		}
		same := c.exact(seed+" losses", was.LossDigest, is.LossDigest, where)
		for i, p := range was.Phases {
			if i < len(is.Phases) {
				c.exact(seed+" "+p.Name+".skipped", fmt.Sprint(p.Skipped), fmt.Sprint(is.Phases[i].Skipped), "the number of skipped steps changed")
			}
		}
		return same
	}
	c.close(seed, was, is, t)
	return false
}

// partedAt says where a run's losses first differ from the baseline's, on the same kernels.
func partedAt(was, is BaselineRun) string {
	for i, p := range was.Phases {
		if i >= len(is.Phases) {
			break
		}
		q := is.Phases[i]
		if math.Float64bits(float64(p.FirstLoss)) != math.Float64bits(float64(q.FirstLoss)) {
			return fmt.Sprintf("the bits of losses differ from the first step of %s on: %.9g was %.9g", p.Name, float64(q.FirstLoss),
				float64(p.FirstLoss))
		}
		for j := range min(len(p.Losses), len(q.Losses)) {
			if math.Float64bits(float64(p.Losses[j])) != math.Float64bits(float64(q.Losses[j])) {
				size := (p.Steps + lossParts - 1) / lossParts
				return fmt.Sprintf("the bits of losses differ by %s step %d: the mean of the last %d is %.12g, was %.12g", p.Name,
					min((j+1)*size, p.Steps), size, float64(q.Losses[j]), float64(p.Losses[j]))
			}
		}
	}
	return "the bits of losses differ, but the means over parts do not"
}

// close adds the facts of losses on a kernel path that rounds differently. It holds those of the first phase alone:
// rounding errors grow while a model trains, and a later phase begins where they have led, as the first one does if a
// start model was trained before it. There, metrics over seeds are what is left to check.
func (c *Check) close(seed string, was, is BaselineRun, t Tolerances) {
	trained := was.Start != is.Start
	for i, p := range was.Phases {
		if i >= len(is.Phases) {
			break
		}
		q := is.Phases[i]
		if trained {
			c.Facts = append(c.Facts, Fact{Name: seed + " " + p.Name + ".losses", Standing: NotCompared, Baseline: was.Kernels,
				Now: is.Kernels, Reason: "the phase began from parameters that other kernels rounded differently"})
			continue
		}
		trained = len(p.Losses) > 0
		add := func(what string, far, tolerance float64, at string) {
			f := Fact{Name: seed + " " + p.Name + "." + what, Standing: Holds, Baseline: was.Kernels, Now: is.Kernels,
				Change: new(results.Number(far)), Tolerance: new(results.Number(tolerance)), Relative: true,
				Reason: fmt.Sprintf("on other kernels %s differs by %.2g%%", at, 100*far)}
			if !(far <= tolerance) {
				f.Standing = Regressed
			}
			c.Facts = append(c.Facts, f)
		}
		add("first_loss", relative(float64(p.FirstLoss), float64(q.FirstLoss)), t.FirstLoss, "the first loss")
		far, at := 0.0, 0
		for j := range max(len(p.Losses), len(q.Losses)) {
			d := math.Inf(1)
			if j < len(p.Losses) && j < len(q.Losses) {
				d = relative(float64(p.Losses[j]), float64(q.Losses[j]))
			}
			if !(d <= far) {
				far, at = d, j
			}
		}
		add("losses", far, t.Losses, fmt.Sprintf("the mean loss of part %d of %d", at+1, len(p.Losses)))
	}
}

// relative is |b-a|/|a|; 0 for equal numbers, and for two NaN.
func relative(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	return math.Abs(b-a) / math.Abs(a)
}
