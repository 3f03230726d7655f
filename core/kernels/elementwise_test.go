package kernels

import (
	"math"
	"testing"
)

// TestElementwise compares every level with the twin, at all lengths and alignments, out of place and in place.
func TestElementwise(t *testing.T) {
	for _, test := range []struct {
		name   string
		kernel func(level *table) func(dst, x, y []float32)
		tol    float64 // 0: equal bits
	}{
		{"add", func(l *table) func(z, x, y []float32) { return l.add }, 0},
		{"mul", func(l *table) func(z, x, y []float32) { return l.mul }, 0},
		{"scale", func(l *table) func(z, x, y []float32) { return func(z, x, _ []float32) { l.scale(z, 1.7, x) } }, 0},
		// Fused operations round once less: half a unit in the last place of the product or the sum.
		{"axpy", func(l *table) func(z, x, y []float32) {
			return func(z, x, y []float32) {
				t := clone(y)
				l.axpy(t, 1.7, x)
				copy(z, t)
			}
		}, 0x1p-22},
		{"exp", func(l *table) func(z, x, y []float32) { return func(z, x, _ []float32) { l.exp(z, x) } }, 0x1p-22},
		{"tanh", func(l *table) func(z, x, y []float32) { return func(z, x, _ []float32) { l.tanh(z, x) } }, 0x1p-22},
		{"tanhGrad", func(l *table) func(z, x, y []float32) { return l.tanhGrad }, 0x1p-20}, // 1-y² with |y| up to 4 cancels
		{"geluErf", func(l *table) func(z, x, y []float32) { return func(z, x, _ []float32) { l.geluErf(z, x) } }, 0x1p-22},
		{"geluErfGrad", func(l *table) func(z, x, y []float32) { return l.geluErfGrad }, 0x1p-19},
		{"geluTanh", func(l *table) func(z, x, y []float32) { return func(z, x, _ []float32) { l.geluTanh(z, x) } }, 0x1p-22},
		{"geluTanhGrad", func(l *table) func(z, x, y []float32) { return l.geluTanhGrad }, 0x1p-18},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEachLevel(t, func(t *testing.T) {
				want, got := test.kernel(&generic), test.kernel(active)
				shapes(t, func(n, offset int) {
					x, y, w := normals(n, 1), normals(n, 2), make([]float32, n)
					want(w, x, y)
					z, intact := guarded(t, n, offset)
					in, _ := guarded(t, n, (offset+3)%8)
					copy(in, x)
					got(z, in, y)
					intact()
					got(in, in, y)
					for i := range z {
						if ok := same(z[i], w[i]) || test.tol > 0 && close(float64(z[i]), float64(w[i]), test.tol); !ok {
							t.Fatalf("length %d, offset %d: element %d (of %g, %g) is %g, twin has %g", n, offset, i, x[i], y[i], z[i], w[i])
						}
						if !same(in[i], z[i]) {
							t.Fatalf("length %d: element %d is %g in place, %g out of place", n, i, in[i], z[i])
						}
					}
				})
			})
		})
	}
}

// TestFunctions compares the transcendental functions with float64 mathematics over the whole range of float32, at
// a grid of bit patterns and densely where the functions bend, within the bounds that their comments state.
func TestFunctions(t *testing.T) {
	gelu := func(x float64) float64 { cdf, _ := normal(x); return x * cdf }
	geluGrad := func(x float64) float64 { cdf, pdf := normal(x); return cdf + x*pdf }
	relative := func(bound float64) func(x, want float64) float64 {
		return func(x, want float64) float64 { return bound * math.Abs(want) }
	}
	for _, test := range []struct {
		name   string
		kernel func() func(y, x []float32)
		exact  func(x float64) float64
		bound  func(x, want float64) float64
	}{
		{"exp", func() func(y, x []float32) { return Exp }, math.Exp, func(x, want float64) float64 {
			return max(math.Abs(want)*0x1p-22, 0x1p-148) // subnormal results: two units
		}},
		{"tanh", func() func(y, x []float32) { return Tanh }, math.Tanh, relative(0x1p-21)},
		{"geluErf", func() func(y, x []float32) { return GeluErf }, gelu, func(x, _ float64) float64 { return 0x1p-22 * max(1, math.Abs(x)) }},
		{"geluTanh", func() func(y, x []float32) { return GeluTanh }, func(x float64) float64 {
			return x * 0.5 * (1 + math.Tanh(sqrt2OverPi*(x+cubic*x*x*x)))
		}, func(x, _ float64) float64 { return 0x1p-22 * max(1, math.Abs(x)) }},
		{"geluErfGrad", func() func(y, x []float32) { return onOnes(GeluErfGrad) }, geluGrad, func(_, _ float64) float64 { return 0x1p-21 }},
		{"geluTanhGrad", func() func(y, x []float32) { return onOnes(GeluTanhGrad) }, func(x float64) float64 {
			t := math.Tanh(sqrt2OverPi * (x + cubic*x*x*x))
			return 0.5*(1+t) + 0.5*x*(1-t*t)*sqrt2OverPi*(1+3*cubic*x*x)
		}, func(_, _ float64) float64 { return 0x1p-20 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEachLevel(t, func(t *testing.T) {
				var x []float32
				for b := uint32(0); b < 0x7f800000; b += 60013 {
					x = append(x, math.Float32frombits(b), -math.Float32frombits(b))
				}
				for v := float32(-110); v < 110; v += 0.0101 {
					x = append(x, v, v/16)
				}
				y := make([]float32, len(x))
				test.kernel()(y, x)
				worst, at := 0.0, float32(0)
				for i, v := range x {
					want := test.exact(float64(v))
					if math.IsNaN(want) || math.Abs(want) > math.MaxFloat32 {
						want = float64(float32(want))
						if math.IsNaN(want) {
							continue // float64's own overflow inside the reference
						}
					}
					d := math.Abs(float64(y[i]) - want)
					if float64(y[i]) == want || float64(y[i]) == float64(float32(want)) {
						continue
					}
					if r := d / test.bound(float64(v), want); !(r <= worst) {
						worst, at = r, v
					}
				}
				t.Logf("largest error is %.3f of the bound, at %g", worst, at)
				if !(worst <= 1) {
					z := []float32{at}
					test.kernel()(z, z)
					t.Errorf("at %g got %g, want %g: %.2f of the bound", at, z[0], test.exact(float64(at)), worst)
				}
			})
		})
	}
}

// onOnes makes a gradient kernel a function of x alone.
func onOnes(grad func(dx, dy, x []float32)) func(y, x []float32) {
	return func(y, x []float32) {
		dy := make([]float32, len(x))
		for i := range dy {
			dy[i] = 1
		}
		grad(y, dy, x)
	}
}

// TestSpecialValues: limits at the infinities, and NaN in, NaN out. Vector versions cut the argument of GELU at
// -12, which leaves 1e-31.
func TestSpecialValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	onEachLevel(t, func(t *testing.T) {
		for _, test := range []struct {
			name      string
			f         func(y, x []float32)
			low, high float32
		}{
			{"exp", Exp, 0, inf}, {"tanh", Tanh, -1, 1}, {"geluErf", GeluErf, 0, inf}, {"geluTanh", GeluTanh, 0, inf},
			{"geluErfGrad", onOnes(GeluErfGrad), 0, 1}, {"geluTanhGrad", onOnes(GeluTanhGrad), 0, 1},
		} {
			for _, n := range []int{3, 16, 19} {
				x, y := make([]float32, n), make([]float32, n)
				x[0], x[1], x[2] = -inf, inf, nan
				test.f(y, x)
				if math.Abs(float64(y[0]-test.low)) > 1e-30 || y[1] != test.high || y[2] == y[2] {
					t.Errorf("%s of -Inf, Inf, NaN among %d is %g, %g, %g; want %g, %g, NaN", test.name, n, y[0], y[1], y[2], test.low, test.high)
				}
			}
		}
	})
}

func TestAddBias(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		x, bias := normals(5*37, 1), normals(37, 2)
		y := make([]float32, len(x))
		AddBias(y, x, bias)
		for i := range y {
			if y[i] != x[i]+bias[i%37] {
				t.Fatalf("element %d is %g, want %g", i, y[i], x[i]+bias[i%37])
			}
		}
	})
}

func BenchmarkElementwise(b *testing.B) {
	const n = 4096
	x, y, z := normals(n, 1), normals(n, 2), make([]float32, n)
	for _, bench := range []struct {
		name string
		f    func()
	}{
		{"Add", func() { Add(z, x, y) }}, {"Axpy", func() { Axpy(z, 1e-9, y) }},
		{"Exp", func() { Exp(z, x) }}, {"Tanh", func() { Tanh(z, x) }}, {"TanhGrad", func() { TanhGrad(z, x, y) }},
		{"GeluErf", func() { GeluErf(z, x) }}, {"GeluErfGrad", func() { GeluErfGrad(z, x, y) }},
		{"GeluTanh", func() { GeluTanh(z, x) }}, {"GeluTanhGrad", func() { GeluTanhGrad(z, x, y) }},
	} {
		b.Run(bench.name, func(b *testing.B) { perElement(b, n, bench.f) })
	}
}

// perElement reports the time per element of slices that stay in the second level cache.
func perElement(b *testing.B, n int, f func()) {
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
}
