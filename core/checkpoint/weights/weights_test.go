package weights

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestBFloat16: the upper half of every float32 is itself, and what lies between two goes to the nearer.
func TestBFloat16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float32Range(-1e38, 1e38).Draw(t, "v")
		got := math.Float32frombits(uint32(bfloat16(v)) << 16)
		below := math.Float32frombits(math.Float32bits(v) &^ 0xffff)
		above := math.Float32frombits(math.Float32bits(v)&^0xffff + 0x10000)
		if d := math.Abs(float64(got) - float64(v)); got != below && got != above || d > math.Abs(float64(below)-float64(v)) || d > math.Abs(float64(above)-float64(v)) {
			t.Fatalf("%g is rounded to %g, its neighbours are %g and %g", v, got, below, above)
		}
	})
	if got := bfloat16(math.Float32frombits(0x7f800001)); got&0x7f80 != 0x7f80 || got&0x7f == 0 {
		t.Errorf("a NaN became %#x", got)
	}
}
