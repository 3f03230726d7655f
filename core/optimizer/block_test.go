package optimizer

import (
	"math"
	"runtime"
	"testing"

	"harness.invalid/core/tensor"
	"pgregory.net/rapid"
)

// TestBlocks covers every element of every tensor once, in order, and no padding.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(1, 3*BlockLen), 0, 6).Draw(t, "lengths")
		var tensors []tensor.Tensor
		for i, n := range lengths {
			tensors = append(tensors, tensor.Tensor{Name: string(rune('a' + i)), Shape: tensor.Shape{n}})
		}
		l, err := tensor.NewLayout(tensors...)
		if err != nil {
			t.Fatal(err)
		}
		blocks := Blocks(l)
		for i, of := range l.Tensors() {
			at := of.Offset
			for len(blocks) > 0 && blocks[0].Tensor == i {
				b := blocks[0]
				if b.Begin != at || b.End <= b.Begin || b.End-b.Begin > BlockLen {
					t.Fatalf("tensor %d at %d: block %+v", i, at, b)
				}
				at, blocks = b.End, blocks[1:]
			}
			if at != of.Offset+of.Len() {
				t.Fatalf("tensor %d is covered up to %d, want %d", i, at, of.Offset+of.Len())
			}
		}
		if len(blocks) != 0 {
			t.Fatalf("%d blocks belong to no tensor", len(blocks))
		}
	})
}

func TestNorm(t *testing.T) {
	l, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{5*BlockLen + 3}}, tensor.Tensor{Name: "b", Shape: tensor.Shape{1}})
	if err != nil {
		t.Fatal(err)
	}
	section := make([]float32, l.Len())
	var sum float64
	for _, of := range l.Tensors() {
		for i := range of.Of(section) {
			v := float32(math.Sin(float64(i)))
			section[of.Offset+i] = v
			sum += float64(v) * float64(v)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first := Norm(Blocks(l), section)
	// Float64 sums of 80,000 terms in different orders agree to a few parts in 1e14.
	if want := math.Sqrt(sum); math.Abs(first-want) > 1e-12*want {
		t.Errorf("Norm = %.17g, want %.17g", first, want)
	}
	for procs := 2; procs <= 5; procs++ {
		runtime.GOMAXPROCS(procs)
		if n := Norm(Blocks(l), section); n != first {
			t.Errorf("Norm on %d CPUs = %.17g, want the bits of one CPU, %.17g", procs, n, first)
		}
	}
}

func TestClipScale(t *testing.T) {
	for _, test := range []struct{ norm, limit, want float64 }{{2, 1, 0.5}, {1, 1, 1}, {0.5, 1, 1}, {100, 0, 1}, {0, 1, 1}} {
		if got := ClipScale(test.norm, test.limit); got != test.want {
			t.Errorf("ClipScale(%g, %g) = %g, want %g", test.norm, test.limit, got, test.want)
		}
	}
}
