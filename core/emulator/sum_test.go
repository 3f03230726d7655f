package emulator

import (
	"math"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
)

// numbers are of very different size, so that the order of a sum shows in its bits.
func numbers(n, seed int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i*7+seed*13+1)) * math.Pow(10, float64((i+3*seed)%6)))
	}
	return x
}

// TestReduceOrder: part c of n is summed over replicas c+1, c+2, ..., c, from left to right.
func TestReduceOrder(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		size := n*stretch + 100 - stretch
		part := stretch
		var replicas [][]float32
		for r := range n {
			replicas = append(replicas, numbers(size, r))
		}
		got := make([]float32, size)
		New(Policy{}).reduce(&bert.Pass{Size: 1}, got, replicas)
		for i := range got {
			c := i / part
			want := replicas[(c+1)%n][i]
			for hop := 2; hop <= n; hop++ {
				want += replicas[(c+hop)%n][i]
			}
			if got[i] != want {
				t.Fatalf("%d replicas: element %d of part %d is %g, want %g", n, i, c, got[i], want)
			}
		}
	}
}

// TestAccumulate: the sum of the micro-batches, or their mean, stored in FP16 after each.
func TestAccumulate(t *testing.T) {
	half := Store{Format: numerics.FP16}
	for _, running := range []bool{false, true} {
		d := New(Policy{Accumulate: half, RunningMean: running})
		sum := make([]float32, 200)
		want := make([]float32, 200)
		for k := range 4 {
			grad := numbers(200, k)
			for i := range want {
				g := grad[i] * 1e-2
				grad[i] = g
				switch {
				case k == 0:
					want[i] = g
				case running:
					want[i] = float32(math.FMA(1/float64(k+1), float64(g), float64(float32(k)/float32(k+1)*want[i])))
				default:
					want[i] += g
				}
				want[i] = numerics.FP16.Round(want[i])
			}
			d.accumulate(&bert.Pass{Size: 1}, sum, grad, 0, k)
		}
		for i := range sum {
			// Whether the product and the sum are fused may move a value across a rounding boundary: one unit of FP16.
			if d := math.Abs(float64(sum[i] - want[i])); d > 0x1p-10*math.Abs(float64(want[i])) {
				t.Fatalf("running mean %v: element %d is %g, want %g", running, i, sum[i], want[i])
			}
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	for name, p := range map[string]Policy{
		"TF32 has no stochastic rounding": {Norm: Row{Out: Store{Format: numerics.TF32, Stochastic: true}}},
		"chunks are at most 256":          {Partials: Partials{Chunk: 257}},
		"formats are known":               {Reduce: Store{Format: 17}},
	} {
		if err := p.Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	p := Policy{Linear: Row{Out: Store{Format: numerics.FP16, Stochastic: true}}}
	if n := p.Nearest(); n.Linear.Out.Stochastic || !p.Linear.Out.Stochastic {
		t.Error("Nearest must round to nearest and leave its receiver alone")
	}
}
