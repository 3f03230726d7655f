package plotting

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRoundTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		most      int
		want      string
	}{
		{0.2, 6.1, 8, "1 2 3 4 5 6"},
		{1, 340, 10, "50 100 150 200 250 300"},
		{0, 0.0009, 5, "0.0000 0.0002 0.0004 0.0006 0.0008"},
		{-0.3, 0.3, 4, "-0.2 0.0 0.2"},
		{0, 3e-5, 4, "0 1e-05 2e-05 3e-05"},
		{70, 82, 3, "70 75 80"},
	} {
		var labels []string
		for _, tick := range roundTicks(c.most)(c.low, c.high) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%g to %g: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}

// TestRoundTicksProperties: ticks lie in the range, are no more than asked for, and their labels say where they are.
func TestRoundTicksProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e9, 1e9).Draw(t, "low")
		span := math.Pow(10, rapid.Float64Range(-6, 9).Draw(t, "span"))
		span = max(span, math.Abs(low)*1e-3)
		most := rapid.IntRange(2, 20).Draw(t, "most")
		ticks := roundTicks(most)(low, low+span)
		if len(ticks) > most+1 {
			t.Fatalf("%d ticks, want %d at most", len(ticks), most+1)
		}
		for _, tick := range ticks {
			v, err := strconv.ParseFloat(tick.Label, 64)
			if err != nil || math.Abs(v-tick.Value) > span*1e-6 {
				t.Fatalf("the label at %g is %q", tick.Value, tick.Label)
			}
			if tick.Value < low-span*1e-6 || tick.Value > low+span*(1+1e-6) {
				t.Fatalf("a tick at %g, outside of %g to %g", tick.Value, low, low+span)
			}
		}
	})
}
