package statistics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// TestFisherMaize: of the 32,768 signs of Darwin's 15 differences, 863 have a sum as great as the one observed, and
// as many its opposite. Source: Fisher 1935, The Design of Experiments, section 21.
func TestFisherMaize(t *testing.T) {
	d := []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}
	near(t, "p", SignFlip(d), 2*863.0/32768, 1e-15)
}

func TestSignFlip(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want float64
	}{{[]float64{1}, 1}, {[]float64{1, 2, 3}, 0.25}, {[]float64{-1, -2, -3}, 0.25}, {[]float64{1, -1}, 1}, {[]float64{0, 0, 0}, 1},
		{[]float64{0.1, 0.2, 0.3, 0.1, 0.2, 0.3}, 2.0 / 64}} {
		near(t, "p", SignFlip(c.d), c.want, 1e-15)
	}
}

// TestSignFlipBrute holds the Gray code against all signs, one by one.
func TestSignFlipBrute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Map(rapid.IntRange(-20, 20), func(i int) float64 { return float64(i) }), 1, 9).Draw(t, "d")
		sum := func(signs int) float64 {
			s := 0.0
			for i, v := range d {
				if signs>>i&1 == 1 {
					v = -v
				}
				s += v
			}
			return max(s, -s)
		}
		count := 0
		for signs := range 1 << len(d) {
			if sum(signs) >= sum(0) {
				count++
			}
		}
		if got, want := SignFlip(d), float64(count)/float64(int(1)<<len(d)); got != want {
			t.Errorf("p is %g, want %g", got, want)
		}
	})
}

// TestSignFlipDrawn: beyond exactFlips the signs are drawn; for many pairs p is close to that of the normal
// distribution.
func TestSignFlipDrawn(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	d := make([]float64, 100)
	var sum, squares float64
	for i := range d {
		d[i] = 0.2 + rng.NormFloat64()
		sum += d[i]
		squares += d[i] * d[i]
	}
	// Under random signs Σd has mean 0 and variance Σd². Its p has a standard error of 0.0007 over 100,000 draws.
	z := distuv.Normal{Sigma: 1}.CDF(-sum / math.Sqrt(squares))
	near(t, "p", SignFlip(d), 2*z, 0.004)
}

// TestAdjustHolm: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") of R, and the example of Wikipedia's article on
// the method.
func TestAdjustHolm(t *testing.T) {
	near := cmpopts.EquateApprox(0, 1e-12)
	for _, c := range []struct{ p, want []float64 }{
		{[]float64{0.01, 0.02, 0.03, 0.04, 0.05}, []float64{0.05, 0.08, 0.09, 0.09, 0.09}},
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.6, 0.7}, []float64{1, 1}},
		{nil, []float64{}},
	} {
		before := slices.Clone(c.p)
		if diff := cmp.Diff(c.want, AdjustHolm(c.p), near); diff != "" {
			t.Errorf("%v: %s", c.p, diff)
		}
		if !slices.Equal(before, c.p) {
			t.Errorf("the argument was changed to %v", c.p)
		}
	}
}
