package kernels

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if limit := os.Getenv("HARNESS_CPU"); limit != "" && active.name != limit {
		println("kernels: HARNESS_CPU asks for", limit, "but this build and processor have at most", active.name)
	}
	os.Exit(m.Run())
}

// onEachLevel runs a test on every implementation that this build and processor have.
func onEachLevel(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	defer func(t *table) { active = t }(active)
	for _, level := range levels() {
		active = level
		t.Run(level.name, test)
	}
}

// normals returns n normal deviates, the same for the same seed.
func normals(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func clone(x []float32) []float32 { return append(make([]float32, 0, len(x)), x...) }

func word(x float32) uint32 { return math.Float32bits(x) }

// same compares bits and treats all NaN as equal.
func same(a, b float32) bool { return word(a) == word(b) || a != a && b != b }

// guarded returns a slice of length n that begins offset floats into an allocation filled with canaries, and a
// check that the canaries around it are intact.
func guarded(t *testing.T, n, offset int) (x []float32, check func()) {
	t.Helper()
	const canary = 12345.678
	all := make([]float32, offset+n+40)
	for i := range all {
		all[i] = canary
	}
	return all[offset : offset+n : offset+n], func() {
		t.Helper()
		for i, v := range all {
			if (i < offset || i >= offset+n) && v != canary {
				t.Fatalf("length %d, offset %d: element %d beside the slice was overwritten with %v", n, offset, i-offset, v)
			}
		}
	}
}

// shapes are the lengths and offsets at which every vector kernel is compared with its twin: all tails of all
// unrollings.
func shapes(t *testing.T, test func(n, offset int)) {
	for n := range 301 {
		test(n, n%8)
	}
	test(2000, 1)
}

// close reports whether got is within tol·max(1, |want|) of want.
func close(got, want, tol float64) bool {
	return got == want || math.Abs(got-want) <= tol*max(1, math.Abs(want))
}
