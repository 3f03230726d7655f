package format

import (
	"math"
	"testing"
)

// TestEffect counts what saturates, vanishes and loses digits in tensors whose scales are known, and holds error and cosine
// against their definitions.
func TestEffect(t *testing.T) {
	load := func(name string) *Format {
		f, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	saturating, err := load("e4m3").With("", Saturate, "")
	if err != nil {
		t.Fatal(err)
	}
	inf := float32(math.Inf(1))
	for _, test := range []struct {
		format     *Format
		x          []float32
		amax       float32 // of the whole tensor, as a caller gives it
		want       Effect  // counts, largest and scale
		alongRows  bool
		rows, cols int
	}{
		{saturating, []float32{448, 465, -1000, 0, 0x1p-11, 0x1p-8, 1, inf}, 0,
			Effect{Values: 8, Saturated: 3, Flushed: 1, Subnormal: 1, Largest: inf, Scale: 1}, false, 1, 8},
		{load("e4m3-tensor"), []float32{1, -2, 0x1p-20, 4}, 4, Effect{Values: 4, Flushed: 1, Largest: 4, Scale: 112}, false, 2, 2},
		{load("e4m3-tensor"), []float32{1, -2, 8, 4}, 2, Effect{Values: 4, Saturated: 2, Largest: 8, Scale: 224}, false, 2, 2},
		// Blocks of 32 along rows, here the columns of the matrix: one of 7's, whose scale by the floor rule is 1, so that 7
		// is beyond 6, and one of small values, of which none is beside a large one.
		{load("mxfp4"), []float32{7, 0x1p-9, 7, 0x1p-9, 0.125, 0x1p-9}, 0,
			Effect{Values: 6, Saturated: 2, Flushed: 1, Largest: 7}, true, 3, 2},
	} {
		m := Matrix{Src: test.x, Dst: make([]float32, len(test.x)), Rows: test.rows, Columns: test.cols, AlongRows: test.alongRows}
		q := test.format.Quantizer()
		q.Quantize(&m, 0, q.Bands(&m), test.amax)
		got := q.Effect(&m, test.amax)
		var noise, before, after, both float64
		for i, x := range m.Src {
			if x := float64(x); !math.IsInf(x, 0) {
				y := float64(m.Dst[i])
				noise, before, after, both = noise+(y-x)*(y-x), before+x*x, after+y*y, both+x*y
			}
		}
		if e, c := math.Sqrt(noise/before), both/math.Sqrt(before*after); math.Abs(got.RelError()-e) > 1e-12 || math.Abs(got.Cosine()-c) > 1e-12 {
			t.Errorf("%s of %v: error %g and cosine %g, want %g and %g", test.format.Name, test.x, got.RelError(), got.Cosine(), e, c)
		}
		got.noise, got.before, got.after, got.both = 0, 0, 0, 0
		if got != test.want {
			t.Errorf("%s of %v: %+v, want %+v", test.format.Name, test.x, got, test.want)
		}
	}
	var sum Effect
	sum.Add(Effect{Values: 2, Saturated: 1, Scale: 8, Largest: 3})
	sum.Add(Effect{Values: 3, Flushed: 1, Scale: 4, Largest: 1})
	if want := (Effect{Values: 5, Saturated: 1, Flushed: 1, Scale: 4, Largest: 3}); sum != want {
		t.Errorf("the sum of two is %+v, want %+v", sum, want)
	}
	if zero := (Effect{}); zero.RelError() != 0 || zero.Cosine() != 1 {
		t.Error("a tensor of zeros has an error")
	}
}
