package lockstep

import (
	"math"
	"math/rand/v2"
	"testing"

	"harness.invalid/core/numerics"
)

// pairOf pairs two tensors, of which the second is stored in a format.
func pairOf(a, b []float32, format numerics.Format) [2]values {
	return [2]values{{of: a, scale: 1, name: "fp32"}, {of: b, scale: 1, name: format.String(), format: format}}
}

func normal(n int, sd float64) []float32 {
	r := rand.New(rand.NewPCG(7, 9))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(sd * r.NormFloat64())
	}
	return x
}

func mapped(x []float32, f func(i int, v float32) float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = f(i, v)
	}
	return y
}

// near reports whether x is within a relative tolerance of want.
func near(x, want, tolerance float64) bool { return math.Abs(x-want) <= tolerance*math.Abs(want) }

// TestCompare changes tensors in known ways and checks the numbers.
func TestCompare(t *testing.T) {
	const n = 20000
	x := normal(n, 1)
	r := rand.New(rand.NewPCG(1, 2))

	same := compare(pairOf(x, x, numerics.FP32), 0)
	if same.Relative != 0 || same.Bias != 0 || same.Explained != 0 || same.Count != n {
		t.Errorf("a tensor differs from itself: %+v", same)
	}

	// b = 1.1·a: the difference is 0.1·a, and 0.1/1.05 of the mean of both.
	more := compare(pairOf(x, mapped(x, func(_ int, v float32) float32 { return 1.1 * v }), numerics.FP32), 0)
	if !near(float64(more.Relative), 0.1, 1e-5) || !near(float64(more.Bias), 0.1/1.05, 1e-5) ||
		!near(more.Explained, 1, 1e-5) || more.BiasError > 1e-6 {
		t.Errorf("values that are a tenth larger: %+v", more)
	}

	// Errors on both sides that are independent of the values have no bias, however large they are.
	noise := func(_ int, v float32) float32 { return v + float32(0.3*r.NormFloat64()) }
	noisy := compare(pairOf(mapped(x, noise), mapped(x, noise), numerics.FP32), 0)
	if want := 0.3 * math.Sqrt2 / math.Sqrt(1.09); !near(float64(noisy.Relative), want, 0.03) ||
		math.Abs(float64(noisy.Bias)) > 4*float64(noisy.BiasError) || noisy.Explained > 0.01 {
		t.Errorf("noise: %+v, want relative %.3f and no bias", noisy, want)
	}
	// Over many draws, the bias divided by its standard error has a standard deviation close to 1.
	var squares float64
	const draws = 200
	for range draws {
		noise := func(_ int, v float32) float32 { return v * (1 + float32(0.1*r.NormFloat64())) }
		d := compare(pairOf(x[:500], mapped(x[:500], noise), numerics.FP32), 0)
		z := float64(d.Bias / d.BiasError)
		squares += z * z
	}
	if sd := math.Sqrt(squares / draws); sd < 0.8 || sd > 1.25 {
		t.Errorf("the bias of unbiased errors has %.2f standard errors, want about 1", sd)
	}
}

// TestCompareRange: values that leave the range of FP16 at either end are counted.
func TestCompareRange(t *testing.T) {
	const n = 20000
	x := normal(n, 1)
	// FP16 holds nothing below 2^-24 and is coarse below 2^-14.
	small := normal(n, 0x1p-24)
	under := compare(pairOf(small, mapped(small, func(_ int, v float32) float32 { return numerics.FP16.Round(v) }), numerics.FP16), 0)
	if s, exact := under.Sides[1], under.Sides[0]; !near(s.Zero, 0.383, 0.05) || !near(s.Zero+s.Subnormal, 1, 1e-9) ||
		s.Underflowed != 1 || exact.Zero != 0 || exact.Subnormal != 0 {
		t.Errorf("values around 2^-24 in FP16: %+v, want P(|x| < 2^-25) = 38%% zero, and all others subnormal", under.Sides)
	}

	// Infinite, not a number, or stopped at 65504: each is an overflow.
	over := mapped(x, func(_ int, v float32) float32 { return v })
	over[0], over[1], over[2] = float32(math.Inf(-1)), float32(math.NaN()), -65504
	if d := compare(pairOf(x, over, numerics.FP16), 0); !math.IsInf(float64(d.Relative), 1) ||
		d.Sides[1].Overflow != 3.0/n || d.Sides[0].Overflow != 0 {
		t.Errorf("three values out of range: %+v", d)
	}
	if d := compare(pairOf(x, over, numerics.FP32), 0); d.Sides[1].Overflow != 2.0/n {
		t.Errorf("65504 is an overflow in FP32: %+v", d)
	}

	// Gradients are compared without the loss scale, and their range is checked with it.
	scaled := pairOf(small, mapped(small, func(_ int, v float32) float32 { return 0x1p20 * v }), numerics.FP16)
	scaled[1].scale = 0x1p20
	if d := compare(scaled, 0); d.Relative != 0 || d.Sides[1].Subnormal > 0.01 ||
		!near(float64(d.Sides[1].Norm), float64(d.Sides[0].Norm), 1e-12) {
		t.Errorf("the same at another scale: %+v", d)
	}
	if d := compare(pairOf(make([]float32, 4), []float32{0, 0, 0, 1}, numerics.FP32), 2); d.Relative != 0.5 {
		t.Errorf("1 against a norm of 2 is %g", d.Relative)
	}
}

// TestUpdateRounding: rounding to nearest loses small updates of FP16 weights; stochastic rounding keeps them on
// average.
func TestUpdateRounding(t *testing.T) {
	const n = 20000
	before := mapped(normal(n, 0.02), func(_ int, v float32) float32 { return numerics.FP16.Round(v) })
	updated := mapped(before, func(i int, v float32) float32 { return v + v*0x1p-14 }) // an eighth of a step, or less
	r := rand.New(rand.NewPCG(3, 4))
	round := numerics.Rounding{Format: numerics.FP16, Stochastic: true}
	for name, test := range map[string]struct {
		store      func(v float32) float32
		part, lost float64
	}{
		"nearest":    {numerics.FP16.Round, 0, 1},
		"stochastic": {func(v float32) float32 { return round.RoundWith(v, uint16(r.Uint32())) }, 1, 0.9},
		"fp32":       {func(v float32) float32 { return v }, 1, 0},
	} {
		var u updateRounding
		u.add(before, updated, mapped(updated, func(_ int, v float32) float32 { return test.store(v) }))
		k := u.kept()
		if k == nil || math.Abs(float64(k.Part)-test.part) > 4*float64(k.Error)+1e-9 || float64(k.Error) > 0.1 ||
			math.Abs(k.Lost-test.lost) > 0.05 {
			t.Errorf("%s: %+v, want part %g and about %g lost", name, k, test.part, test.lost)
		}
	}
	if k := (&updateRounding{}).kept(); k != nil {
		t.Errorf("no updates: %+v", k)
	}
}
