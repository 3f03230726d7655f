package format

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/x448/float16"
	"pgregory.net/rapid"

	"harness.invalid/core/random"
)

func load(t testing.TB, name string) *Format {
	t.Helper()
	f, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPublished holds the formats against the published tables: the largest value, the least normal and the least
// subnormal one.
func TestPublished(t *testing.T) {
	for name, want := range map[string][3]float64{
		"fp32": {math.MaxFloat32, 0x1p-126, 0x1p-149}, "tf32": {0x1.ffcp127, 0x1p-126, 0x1p-136},
		"bf16": {0x1.fep127, 0x1p-126, 0x1p-133}, "fp16": {65504, 0x1p-14, 0x1p-24},
		"e4m3": {448, 0x1p-6, 0x1p-9}, "e5m2": {57344, 0x1p-14, 0x1p-16},
		"f143": {240, 0x1p-7, 0x1p-10}, "f152": {57344, 0x1p-15, 0x1p-17},
		"e3m2": {28, 0x1p-2, 0x1p-4}, "e2m3": {7.5, 1, 0x1p-3}, "e2m1": {6, 1, 0.5},
		"int8": {127, 1, 1}, "mxint8": {127.0 / 64, 1.0 / 64, 1.0 / 64},
	} {
		e := &load(t, name).Element
		if got := [3]float64{e.Max(), e.Normal(), e.Tiny()}; got != want {
			t.Errorf("%s: largest, least normal and least value are %v, want %v", name, got, want)
		}
	}
}

// narrow are formats of all kinds with few codes.
func narrow(t testing.TB) map[string]*Element {
	t.Helper()
	all := map[string]*Element{}
	for _, name := range Names() {
		f := load(t, name)
		if f.Scale != nil || f.Element.Bits() > 8 {
			continue
		}
		for _, r := range []Rounding{NearestEven, NearestAway, TowardZero, Stochastic} {
			g, err := f.With(r, "", "")
			if err != nil {
				t.Fatal(err)
			}
			all[name+" "+string(r)] = &g.Element
		}
	}
	for name, e := range map[string]Element{
		"e3m0":          {Exponent: 3, Bias: 3},
		"e4m3 flushing": {Exponent: 4, Mantissa: 3, Bias: 7, Specials: IEEE, Overflow: ToInfinity, FlushSubnormals: true},
		"e4m3 2 bits":   {Exponent: 4, Mantissa: 3, Bias: 20, Specials: OneNaN, Rounding: Stochastic, RandomBits: 2},
		"fixed away":    {Mantissa: 5, Bias: -3, Rounding: NearestAway},
		"fixed flushed": {Exponent: 2, Mantissa: 4, Bias: 1, FlushSubnormals: true, Rounding: Stochastic},
	} {
		e.setDefaults()
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		all[name] = &e
	}
	return all
}

// TestEnumerated holds casts to nearest against a search among all values of a format, with the tie by the last bit of
// the code, and all casts against what rounding is: one of the two neighbours, and values stay.
func TestEnumerated(t *testing.T) {
	for name, e := range narrow(t) {
		values := e.Values()
		for i, v := range values {
			for _, x := range []float64{v, -v} {
				if got := e.Round(x, 0xffff); got != x {
					t.Errorf("%s: %g becomes %g, want itself", name, x, got)
				}
			}
			if i+1 == len(values) {
				continue
			}
			next := values[i+1]
			middle := (v + next) / 2
			tie := v
			switch {
			case e.Rounding == NearestAway, e.Rounding == NearestEven && odd(e, v):
				tie = next
			case e.Rounding == Stochastic:
				tie = next // half and the greatest random number
			}
			if got := e.Round(middle, 0xffff); got != tie && !(e.FlushSubnormals && v == 0) {
				t.Errorf("%s: %g between %g and %g becomes %g, want %g", name, middle, v, next, got, tie)
			}
			below, above := math.Nextafter(middle, 0), math.Nextafter(middle, 1e9)
			if e.Rounding == NearestEven && !(e.FlushSubnormals && v == 0) && (e.Round(below, 0) != v || e.Round(above, 0) != next) {
				t.Errorf("%s: beside %g, %g and %g come out, want %g and %g", name, middle, e.Round(below, 0), e.Round(above, 0), v, next)
			}
		}
	}
}

// odd is the parity of a value's significand in steps of its binade.
func odd(e *Element, v float64) bool {
	ulp := math.Ldexp(1, e.step())
	if e.Exponent > 0 && v > 0 {
		ulp = math.Ldexp(1, max(math.Ilogb(v), e.least())-e.Mantissa)
	}
	return math.Mod(v/ulp, 2) == 1
}

// TestHalf holds FP16 against another implementation, over all its values, their middles and what lies beside them.
func TestHalf(t *testing.T) {
	e := &load(t, "fp16").Element
	for code := range 0x7c00 {
		v := float16.Frombits(uint16(code)).Float32()
		for _, x := range []float32{v, math.Nextafter32(v, 1e9), v + (float16.Frombits(uint16(code+1)).Float32()-v)/2} {
			if got, want := float32(e.Round(float64(x), 0)), float16.Fromfloat32(x).Float32(); got != want && code+1 < 0x7c00 {
				t.Fatalf("%g becomes %g, want %g", x, got, want)
			}
		}
	}
	for _, x := range []float32{65519, 65520, 1e9, float32(math.Inf(1)), float32(math.Inf(-1))} {
		if got, want := float32(e.Round(float64(x), 0)), float16.Fromfloat32(x).Float32(); got != want {
			t.Errorf("%g becomes %g, want %g", x, got, want)
		}
	}
}

// strata are float32 values of every exponent, both signs, beside and between the values of a format.
func strata(e *Element) []float32 {
	list := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		math.MaxFloat32, float32(e.Max()), math.Nextafter32(float32(e.Max()), 1e38)}
	cut := 23 - e.Mantissa
	r := rand.New(rand.NewPCG(1, 2))
	for exponent := range uint32(255) {
		for range 40 {
			b := exponent<<23 | r.Uint32()&(1<<23-1)
			switch r.IntN(4) {
			case 0:
				b &^= 1<<cut - 1
			case 1:
				b = b&^(1<<cut-1) | 1<<cut>>1
			case 2:
				b = (b&^(1<<cut-1) | 1<<cut>>1) + uint32(r.IntN(3)) - 1
			}
			list = append(list, math.Float32frombits(b|uint32(r.IntN(2))<<31))
		}
	}
	return list
}

// TestCaster: the fast casts have the reference's bits.
func TestCaster(t *testing.T) {
	all := narrow(t)
	for _, name := range []string{"fp32", "tf32", "bf16", "fp16"} {
		for _, r := range []Rounding{NearestEven, NearestAway, TowardZero, Stochastic} {
			f, err := load(t, name).With(r, "", "")
			if err != nil {
				t.Fatal(err)
			}
			all[name+" "+string(r)] = &f.Element
		}
	}
	stream := random.New(7, random.Rounding)
	for name, e := range all {
		x := strata(e)
		got := make([]float32, len(x))
		e.Caster().Cast(got, x, stream, 5)
		for i, v := range x {
			want := float32(e.Round(float64(v), stream.Uint16(5+i)))
			if math.Float32bits(got[i]) != math.Float32bits(want) && (got[i] == got[i] || want == want) {
				t.Fatalf("%s: %g (%08x) becomes %g, want %g", name, v, math.Float32bits(v), got[i], want)
			}
		}
	}
}

// TestQuantizer: the fast form of every built-in format has the reference's bits, also at edges and in tiles that are
// zero or not finite.
func TestQuantizer(t *testing.T) {
	stream := random.New(3, random.Rounding)
	for _, name := range Names() {
		for _, rounding := range []Rounding{"", Stochastic} {
			f, err := load(t, name).With(rounding, "", "")
			if err != nil {
				t.Fatal(err)
			}
			rows, columns := 35, 150
			r := rand.New(rand.NewPCG(1, 2))
			x := make([]float32, rows*columns)
			for i := range x {
				x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(40)-20)))
				if i%columns < 32 && i < 20*columns {
					x[i] = 0
				}
			}
			if f.Scale == nil || f.Scale.Rows > 0 { // else all would be NaN
				x[rows*columns-1] = float32(math.Inf(1))
			}
			for _, alongRows := range []bool{false, true} {
				want, got := make([]float32, len(x)), make([]float32, len(x))
				m := Matrix{Dst: got, Src: x, Rows: rows, Columns: columns, AlongRows: alongRows, Stream: stream}
				turned := turn(f, alongRows)
				if err := turned.Quantize(want, x, rows, columns, stream.Uint16); err != nil {
					t.Fatal(err)
				}
				q := f.Quantizer()
				tensor := Worse(Largest(x[:100]), Largest(x[100:]))
				cut := q.Bands(&m) / 2
				q.Quantize(&m, cut, q.Bands(&m), tensor)
				q.Quantize(&m, 0, cut, tensor)
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
						t.Fatalf("%s %s: element %d, %g, becomes %g, want %g", name, rounding, i, x[i], got[i], want[i])
					}
				}
			}
		}
	}
}

// turn exchanges the sides of tiles.
func turn(f *Format, alongRows bool) *Format {
	g := *f
	if f.Scale != nil && alongRows {
		s := *f.Scale
		s.Rows, s.Columns, g.Scale = s.Columns, s.Rows, &s
	}
	return &g
}

// TestProperties: for any format, a cast of a cast changes nothing, and rounding to nearest keeps order and sign.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Element{
			Exponent: rapid.IntRange(0, 8).Draw(t, "exponent"), Mantissa: rapid.IntRange(0, 10).Draw(t, "mantissa"),
			Bias: rapid.IntRange(-20, 130).Draw(t, "bias"), FlushSubnormals: rapid.Bool().Draw(t, "flush"),
			Specials: rapid.SampledFrom([]Specials{IEEE, OneNaN, NegativeZero, NoSpecials}).Draw(t, "specials"),
			Rounding: rapid.SampledFrom([]Rounding{NearestEven, NearestAway, TowardZero, Stochastic}).Draw(t, "rounding"),
		}
		e.setDefaults()
		if e.Validate() != nil {
			t.Skip("no such format")
		}
		x, y := rapid.Float32().Draw(t, "x"), rapid.Float32().Draw(t, "y")
		bits := rapid.Uint16().Draw(t, "random")
		once := e.Round(float64(x), bits)
		if twice := e.Round(once, bits); twice != once {
			t.Fatalf("%g becomes %g, and that %g", x, once, twice)
		}
		if math.Abs(once) > e.Max() {
			t.Fatalf("%g becomes %g, beyond %g", x, once, e.Max())
		}
		if other := e.Round(float64(y), bits); e.Rounding != Stochastic && (x <= y) != (once <= other) && once != other {
			t.Fatalf("%g and %g become %g and %g", x, y, once, other)
		}
	})
}

// TestMistakes: an error in a description says where it is and what is wanted.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"": "no bits",
		"element: {exponent: 4, mantissa: 3, bais: 7}":                   `"bais" is no key of a format, did you mean bias?`,
		"element: {exponent: 9, mantissa: 3}":                            "exponent is 9, want 0",
		"element: {exponent: 4, mantissa: 24}":                           "mantissa is 24",
		"element: {exponent: 4, mantissa: 3, rounding: up}":              `rounding is "up", want one of`,
		"element: {exponent: 4, mantissa: 3, overflow: infinity}":        "overflow is infinity",
		"element: {like: e4m4}":                                          `no format is named "e4m4", did you mean e4m3?`,
		"element: {like: mxfp4}":                                         "has a scale",
		"element: {exponent: 8, mantissa: 3, bias: 150}":                 "want what float32 has",
		"element: {like: e4m3, random_bits: 3}":                          "random_bits is 3",
		"element: {like: e4m3}\nscale: {columns: 32}":                    "format is not given",
		"element: {like: e4m3}\nscale: {columns: -1, format: fp32}":      "-1 columns",
		"element: {like: e4m3}\nscale: {format: fp32, rule: ceil}":       "belong to a power-of-two",
		"element: {like: e4m3}\nscale: {format: fp32, tensor: true}":     "needs no second scale",
		"element: {like: e4m3}\nscale: {format: power-of-two, least: 3}": "want a range",
		"element: {like: e4m3}\n---\nelement: {like: e5m2}":              "a second document",
		"element: {exponent: many}":                                      "many",
	} {
		_, err := Parse("mine", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", text, err, want)
		}
	}
}

// FuzzParse: no text makes the parser fail other than by an error, and what it takes rounds without one.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		text, err := Text(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("element: {like: [], exponent: -1}\nscale: []"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse("fuzzed", text)
		if err != nil {
			return
		}
		x := []float32{0, 1, -3.7, 1e30, -1e-30, float32(math.NaN())}
		if err := d.Quantize(x, x, 2, 3, func(int) uint16 { return 77 }); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkQuantize is one goroutine over 1 MiB, in bytes read a second, beside a copy.
func BenchmarkQuantize(b *testing.B) {
	const rows, columns = 256, 1024
	x, y := make([]float32, rows*columns), make([]float32, rows*columns)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(4 * int64(len(x)))
		for b.Loop() {
			copy(y, x)
		}
	})
	for _, name := range []string{"e4m3", "bf16", "e4m3-tensor", "mxfp8-e4m3", "fp8-128x128", "nvfp4"} {
		q := load(b, name).Quantizer()
		m := Matrix{Dst: y, Src: x, Rows: rows, Columns: columns}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 * int64(len(x)))
			for b.Loop() {
				tensor := float32(0)
				if q.NeedsLargest() {
					tensor = Largest(x)
				}
				q.Quantize(&m, 0, q.Bands(&m), tensor)
			}
		})
	}
}
