package regression

import (
	"math"
	"testing"
)

// TestPowerRegressed: for a tolerance of 0 it is the power of Student's test, as in the examples of R's
// power.t.test: n = 20 and delta = 1 give 0.8689528 (two-sided at 0.05, counting the upper tail), and n = 17.84713
// gives 0.9 (one-sided).
func TestPowerRegressed(t *testing.T) {
	near(t, "power", powerRegressed(1, 0, math.Sqrt(2.0/20), 38, 0.025), 0.8689528, 5e-8)
	near(t, "power", powerRegressed(1, 0, math.Sqrt(2/17.84713), 2*17.84713-2, 0.05), 0.9, 5e-7)
}

// near fails unless got is want to the digits that were published.
func near(t *testing.T, what string, got, want, half float64) {
	t.Helper()
	if !(math.Abs(got-want) <= half) {
		t.Errorf("%s is %.7g, want %.7g", what, got, want)
	}
}
