package numerics

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"
	"pgregory.net/rapid"

	"harness.invalid/core/random"
)

func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func half(x float32) float32 { return float16.Fromfloat32(x).Float32() }

// TestHalf: every one of the 65,536 halves is a fixed point, of nearest and stochastic rounding, and so is every
// point halfway to the next.
func TestHalf(t *testing.T) {
	nearest := Rounding{Format: FP16}
	stochastic := Rounding{Format: FP16, Stochastic: true, Stream: random.New(1, random.Rounding)}
	for h := range 1 << 16 {
		x := float16.Frombits(uint16(h)).Float32()
		if got := nearest.Round(x, h); !same(got, x) {
			t.Fatalf("half %#x = %g rounds to %g", h, x, got)
		}
		if got := stochastic.Round(x, h); !same(got, x) {
			t.Fatalf("half %#x = %g rounds stochastically to %g", h, x, got)
		}
		next := float16.Frombits(uint16(h + 1)).Float32()
		for _, mid := range []float32{(x + next) / 2, math.Nextafter32((x+next)/2, x), math.Nextafter32((x+next)/2, next)} {
			if got, want := nearest.Round(mid, h), half(mid); !same(got, want) {
				t.Fatalf("%g (beside the middle after half %#x) rounds to %g, float16 says %g", mid, h, got, want)
			}
		}
	}
}

func TestHalfOfRandomBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2_000_000 {
		x := math.Float32frombits(r.Uint32())
		if got, want := FP16.Round(x), half(x); !same(got, want) {
			t.Fatalf("%x = %g rounds to %g, float16 says %g", math.Float32bits(x), x, got, want)
		}
	}
}

// TestNearest holds TF32 and BF16 against the definition: no neighbour in the format is nearer, and of two equally
// near the even one is taken.
func TestNearest(t *testing.T) {
	for _, f := range []Format{TF32, BF16} {
		step := uint32(1) << (23 - f.MantissaBits())
		rapid.Check(t, func(t *rapid.T) {
			bits := rapid.Uint32Range(0, infBits-1).Draw(t, "bits")
			x := math.Float32frombits(bits)
			down := bits &^ (step - 1)
			lo, hi := float64(math.Float32frombits(down)), float64(math.Float32frombits(down+step))
			if down+step == infBits {
				hi = 0x1p128
			}
			want := down
			if d := (float64(x) - lo) - (hi - float64(x)); d > 0 || d == 0 && down&step != 0 {
				want = down + step
			}
			if got := f.Round(x); math.Float32bits(got) != want {
				t.Fatalf("%v of %x is %x, want %x", f, bits, math.Float32bits(got), want)
			}
			if got := f.Round(-x); math.Float32bits(got) != want|signBit {
				t.Fatalf("%v of -%x is %x", f, bits, math.Float32bits(got))
			}
		})
	}
}

func TestOverflow(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, test := range []struct {
		overflow          Overflow
		below, over, deep float32
	}{{Inf, 65504, inf, inf}, {Clip, 65504, 65504, 65504}, {NaN, 65504, nan, nan}} {
		r := Rounding{Format: FP16, Overflow: test.overflow}
		for x, want := range map[float32]float32{
			65504: 65504, math.Nextafter32(65520, 0): test.below, 65520: test.over, 1e30: test.deep, inf: inf,
		} {
			if got := r.Round(x, 0); !same(got, want) {
				t.Errorf("overflow %d: %g rounds to %g, want %g", test.overflow, x, got, want)
			}
			if got := r.Round(-x, 0); !same(got, -want) {
				t.Errorf("overflow %d: %g rounds to %g, want %g", test.overflow, -x, got, -want)
			}
		}
		r.Stochastic = true
		for i := range 1000 {
			if got := r.Round(65536, i); !same(got, test.over) {
				t.Fatalf("overflow %d: 65536 rounds stochastically to %g, want %g", test.overflow, got, test.over)
			}
		}
	}
	for _, f := range []Format{TF32, BF16} {
		if got := f.Round(math.MaxFloat32); got != inf {
			t.Errorf("%v of the largest float32 is %g, want +Inf", f, got)
		}
		if got := f.Round(f.Max()); got != f.Max() {
			t.Errorf("%v of its largest value is %g", f, got)
		}
	}
}

// TestNaN includes the signalling NaN whose payload lies in the cut bits only.
func TestNaN(t *testing.T) {
	for _, f := range []Format{FP32, TF32, BF16, FP16} {
		for _, stochastic := range []bool{false, true} {
			for _, bits := range []uint32{0x7fc00000, 0x7f800001, 0xff800001, 0xffffffff} {
				if got := (Rounding{Format: f, Stochastic: stochastic}).Round(math.Float32frombits(bits), 3); got == got {
					t.Errorf("%v of NaN %x is %g", f, bits, got)
				}
			}
		}
	}
}

// TestUnbiased draws n = 2^16 roundings of one value between neighbours lo < x < hi. The mean of the rounded values
// has a standard deviation of (hi-lo)·sqrt(p(1-p)/n) <= 0.002·(hi-lo). A bias of 1% of the gap (an off-by-one in 13
// bits would be 0.01% and is seen by TestStochasticCount) lies 5 of them out, so the limit of 5 catches a bias of
// 2% with a probability above 0.999999, and fails without cause once in 1.7 million values.
func TestUnbiased(t *testing.T) {
	const n = 1 << 16
	for _, f := range []Format{FP16, BF16} {
		for seed, x := range []float32{1.0003, -3.14159, 1e-5, 3e-7, -2.1e-8, 60001.7, 1 + 0x1p-12, 0x1.fffp-15} {
			r := Rounding{Format: f, Stochastic: true, Stream: random.New(uint64(seed), random.Rounding)}
			lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
			for i := range n {
				y := float64(r.Round(x, i))
				if f.Round(float32(y)) != float32(y) {
					t.Fatalf("%v of %g gives %g, which is not in the format", f, x, y)
				}
				lo, hi, sum = min(lo, y), max(hi, y), sum+y
			}
			if !(lo <= float64(x) && float64(x) <= hi) {
				t.Errorf("%v of %g gives values from %g to %g", f, x, lo, hi)
			}
			p := (float64(x) - lo) / (hi - lo)
			if d := math.Abs(sum/n-float64(x)) / (hi - lo); lo < hi && d > 5*math.Sqrt(p*(1-p)/n) {
				t.Errorf("%v of %g: mean of %d is off by %.4f of the gap, standard deviation %.4f", f, x, n, d, math.Sqrt(p*(1-p)/n))
			}
		}
	}
}

// TestStochasticCount: over all 2^13 (2^16) values of the random bits, exactly d of them round up a mantissa whose
// cut part is d.
func TestStochasticCount(t *testing.T) {
	s := random.New(5, random.Rounding)
	for _, f := range []Format{FP16, BF16} {
		discard := 23 - f.MantissaBits()
		for _, d := range []uint32{0, 1, 2, 1 << (discard - 1), 1<<discard - 1} {
			r := Rounding{Format: f, Stochastic: true, Stream: s}
			x := math.Float32frombits(0x3f800000 + d)
			for i := range 5000 {
				bits := uint32(s.Uint16(i)) >> (16 - discard)
				if up := r.Round(x, i) != 1; up != (bits+d >= 1<<discard) {
					t.Fatalf("%v: cut part %d, random bits %d: rounded up is %v", f, d, bits, up)
				}
			}
		}
	}
}

func TestStochasticIsReproducible(t *testing.T) {
	a := Rounding{Format: FP16, Stochastic: true, Stream: random.New(3, random.Rounding)}
	b := a
	b.Stream.Step = 1
	equal := 0
	for i := range 4096 {
		if a.Round(1.0005, i) != a.Round(1.0005, i) {
			t.Fatal("one stream, one index, two results")
		}
		if a.Round(1.0005, i) == b.Round(1.0005, i) {
			equal++
		}
	}
	if equal > 3000 {
		t.Errorf("streams of different steps round %d of 4096 values alike", equal)
	}
}

func TestFormatText(t *testing.T) {
	for f := FP32; f <= FP16; f++ {
		data, err := json.Marshal(f)
		var back Format
		if err != nil || json.Unmarshal(data, &back) != nil || back != f {
			t.Errorf("%v becomes %s and then %v", f, data, back)
		}
	}
	if _, err := ParseFormat("fp8"); !errors.Is(err, ErrInvalid) {
		t.Errorf("fp8: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		r  Rounding
		ok bool
	}{
		{Rounding{}, true}, {Rounding{Format: FP16, Stochastic: true, Overflow: NaN}, true}, {Rounding{Format: BF16, Stochastic: true}, true},
		{Rounding{Format: TF32}, true}, {Rounding{Format: TF32, Stochastic: true}, false}, {Rounding{Format: 9}, false},
		{Rounding{Overflow: 3}, false},
	} {
		if err := test.r.Validate(); (err == nil) != test.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", test.r, err)
		}
	}
}

func TestLossScaler(t *testing.T) {
	s := NewDynamicLossScaler()
	for range 1999 {
		s.Update(true)
	}
	if s.Scale != 65536 {
		t.Fatalf("scale %v after 1999 finite steps", s.Scale)
	}
	s.Update(true)
	if s.Scale != 131072 || s.GrowthTracker != 0 {
		t.Fatalf("scale %v, tracker %d after 2000 finite steps", s.Scale, s.GrowthTracker)
	}
	s.Update(true)
	s.Update(false)
	if s.Scale != 65536 || s.GrowthTracker != 0 || s.Inverse() != 0x1p-16 {
		t.Fatalf("scale %v, tracker %d after an infinite step", s.Scale, s.GrowthTracker)
	}
	s.Update(true)
	state, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"scale":65536,"growth_factor":2,"backoff_factor":0.5,"growth_interval":2000,"_growth_tracker":1}`
	if string(state) != want {
		t.Errorf("state %s, want %s", state, want)
	}
	var back LossScaler
	if err := back.UnmarshalBinary(state); err != nil || back != *s {
		t.Errorf("restored %+v (%v), want %+v", back, err, *s)
	}
	top := LossScaler{Scale: 0x1p127, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 1}
	top.Update(true)
	if top.Scale != 0x1p127 {
		t.Errorf("scale grew past float32 to %v", top.Scale)
	}
	static := NewStaticLossScaler(128)
	static.Update(false)
	if static.Scale != 128 {
		t.Errorf("a static scale became %v", static.Scale)
	}
	for _, bad := range []string{``, `{`, `{"scale":0}`, `{"scale":-1}`, `{"scale":1,"growth_interval":-1}`,
		`{"scale":1,"growth_interval":1}`} {
		if err := back.UnmarshalBinary([]byte(bad)); err == nil {
			t.Errorf("state %q was accepted", bad)
		}
	}
	if back != *s {
		t.Error("a bad state changed the scaler")
	}
}

func FuzzRound(f *testing.F) {
	f.Add(uint32(0x3f800001), uint8(3), true, uint8(1), 5)
	f.Fuzz(func(t *testing.T, bits uint32, format uint8, stochastic bool, overflow uint8, i int) {
		r := Rounding{Format: Format(format % 4), Stochastic: stochastic, Overflow: Overflow(overflow % 3)}
		x := math.Float32frombits(bits)
		y := r.Round(x, i&math.MaxInt32)
		if z := (Rounding{Format: r.Format}).Round(y, 0); !same(y, z) {
			t.Errorf("%+v: %x gives %x, which is not in the format", r, bits, math.Float32bits(y))
		}
		if math.Signbit(float64(x)) != math.Signbit(float64(y)) && y == y {
			t.Errorf("%+v: %x changes its sign", r, bits)
		}
	})
}
