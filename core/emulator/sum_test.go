package emulator

import (
	"math"
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/numerics"
	"harness.invalid/core/tensor"
)

// numbers returns values of very different sizes, so that the order of a sum shows in its bits.
func numbers(n, seed int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i*7+seed*13+1)) * math.Pow(10, float64((i+3*seed)%6)))
	}
	return x
}

// layout has tensors of the given lengths.
func layout(t *testing.T, lengths ...int) *tensor.Layout {
	t.Helper()
	var ts []tensor.Tensor
	for i, n := range lengths {
		ts = append(ts, tensor.Tensor{Name: string(rune('a' + i)), Shape: tensor.Shape{n}})
	}
	l, err := tensor.NewLayout(ts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// inOrder is the sum of element i of part c: of replicas c+1, c+2, ..., c, from left to right.
func inOrder(replicas [][]float32, c, i int) float32 {
	n := len(replicas)
	sum := replicas[(c+1)%n][i]
	for hop := 2; hop <= n; hop++ {
		sum += replicas[(c+hop)%n][i]
	}
	return sum
}

// TestReduceOrder: part c of n is summed over replicas c+1, c+2, ..., c, from left to right, and all replicas get it.
func TestReduceOrder(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		l := layout(t, n*stretch+96-stretch)
		var replicas, before [][]float32
		for r := range n {
			replicas = append(replicas, numbers(l.Len(), r))
			before = append(before, numbers(l.Len(), r))
		}
		d, ring := New(Policy{}), newRing(l, n, &Policy{})
		d.reduceScatter(&bert.Pass{Size: 1}, ring, replicas)
		sum := make([]float32, l.Len())
		ring.collect(sum, replicas)
		ring.allGather(replicas)
		for i := range sum {
			if want := inOrder(before, i/stretch, i); sum[i] != want {
				t.Fatalf("%d replicas: element %d of part %d is %g, want %g", n, i, i/stretch, sum[i], want)
			}
		}
		for r := range replicas {
			if !slices.Equal(replicas[r], sum) {
				t.Errorf("replica %d of %d has another sum after the all-gather", r, n)
			}
		}
	}
}

// TestBuckets: buckets take tensors from the last to the first until they are full, each is a buffer without gaps
// that is cut into parts of its own, and every element is reduced once.
func TestBuckets(t *testing.T) {
	const n = 3
	l := layout(t, 50, 7, stretch+5, 20, 3) // a to e
	p := Policy{BucketBytes: 4 * stretch, FirstBucketBytes: 4 * 22, Reduce: Store{Format: numerics.FP32}}
	// The first bucket has e and d: 3 elements are not enough, 23 are. The second has c, the third b and a.
	buckets := [][]int{{4, 3}, {2}, {1, 0}}
	ring := newRing(l, n, &p)
	parts := make([]int, l.Len())
	for i := range parts {
		parts[i] = -1
	}
	for _, pc := range ring.pieces {
		for i := pc.begin; i < pc.end; i++ {
			if parts[i] != -1 {
				t.Fatalf("element %d is reduced twice", i)
			}
			parts[i] = pc.part
		}
	}
	want := make([]int, l.Len())
	for i := range want {
		want[i] = -1
	}
	for _, bucket := range buckets {
		size := 0
		for _, i := range bucket {
			size += l.Tensors()[i].Len()
		}
		at := 0
		for _, i := range bucket {
			for j := range l.Tensors()[i].Len() {
				want[l.Tensors()[i].Offset+j] = at / ((size + n - 1) / n)
				at++
			}
		}
	}
	if !slices.Equal(parts, want) {
		t.Error("elements are in other parts than their buckets say")
	}
	// Gradients of two bytes: a bucket holds twice as many.
	p.Reduce.Format = numerics.FP16
	p.FirstBucketBytes = 2 * 24
	half := newRing(l, n, &p)
	if first := half.pieces[len(half.pieces)-1]; first.begin < l.Tensors()[0].Offset || len(half.pieces) == len(ring.pieces) {
		t.Errorf("the width of gradients does not matter: %d pieces", len(half.pieces))
	}
}

// TestReplicasStayTheSame trains copies of parameters, each replica on gradients of its own: after all-reduce,
// update and stochastic rounding the copies have the same bits, because the update's random bits are the same in
// all replicas; those of a replica's own sums are not.
func TestReplicasStayTheSame(t *testing.T) {
	const n, size = 3, 1000
	half := Store{Format: numerics.FP16, Stochastic: true}
	d := New(Policy{Accumulate: half, Reduce: half, Parameters: half})
	l := layout(t, size)
	ring := newRing(l, n, &d.policy)
	params, sums := make([][]float32, n), make([][]float32, n)
	for r := range n {
		params[r], sums[r] = make([]float32, l.Len()), make([]float32, l.Len())
	}
	pass := func(step, r int) *bert.Pass {
		return &bert.Pass{Seed: 1, Step: uint32(step), Sample: 8 * r, Size: 1, Replica: r}
	}
	for step := 1; step <= 5; step++ {
		for r := range n {
			for k := range 2 {
				grad := numbers(l.Len(), 10*step+2*r+k)
				for i := range grad {
					grad[i] *= 1e-4
				}
				d.accumulate(pass(step, r), sums[r], grad, 0, k)
			}
		}
		d.reduceScatter(pass(step, 0), ring, sums)
		ring.allGather(sums)
		for r := range n {
			for i, g := range sums[r] {
				params[r][i] -= 1e-3 * g
			}
			d.storeParameters(pass(step, r), params[r])
		}
		for r := 1; r < n; r++ {
			if !slices.Equal(params[r], params[0]) {
				t.Fatalf("step %d: parameters of replica %d differ from those of replica 0", step, r)
			}
		}
	}
	// Replicas round the same gradient differently.
	grad := numbers(l.Len(), 7)
	for r := range 2 {
		d.accumulate(pass(9, r), sums[r], grad, 0, 0)
	}
	if slices.Equal(sums[0], sums[1]) {
		t.Error("replicas round their own sums alike")
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
