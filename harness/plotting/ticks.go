package plotting

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// roundTicks are at multiples of 1, 2 or 5 times a power of ten, so many at most.
func roundTicks(most int) plot.TickerFunc {
	return func(low, high float64) []plot.Tick {
		if !(high > low) || math.IsInf(high-low, 0) {
			return nil
		}
		power := math.Floor(math.Log10((high - low) / float64(most)))
		step := math.Pow(10, power)
		for _, m := range []float64{1, 2, 5, 10} {
			if step = m * math.Pow(10, power); (high-low)/step <= float64(most) {
				break
			}
		}
		var ticks []plot.Tick
		for i := math.Ceil(low/step - 1e-9); i <= high/step+1e-9; i++ {
			ticks = append(ticks, plot.Tick{Value: i * step, Label: tickLabel(i*step, step)})
		}
		return ticks
	}
}

// tickLabel writes a multiple of a step with the digits that the step has.
func tickLabel(v, step float64) string {
	if step < 0.99e-4 || step > 0.99e6 {
		if v == 0 {
			return "0"
		}
		digits := max(0, int(math.Floor(math.Log10(math.Abs(v))+1e-9)-math.Floor(math.Log10(step)+1e-9)))
		return strconv.FormatFloat(v, 'e', digits, 64)
	}
	return strconv.FormatFloat(v+0, 'f', max(0, -int(math.Floor(math.Log10(step)+1e-9))), 64)
}

// logTicks are at 1 to 9 of each power of ten; 1, 2 and 5 are labelled, or only 1 if there are many powers.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	powers := math.Log10(high / low)
	for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
		for m := 1.0; m < 10; m++ {
			t := plot.Tick{Value: m * math.Pow(10, e)}
			if t.Value < low || t.Value > high {
				continue
			}
			if m == 1 || powers < 3 && (m == 2 || m == 5) {
				t.Label = strconv.FormatFloat(t.Value, 'g', 3, 64)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
