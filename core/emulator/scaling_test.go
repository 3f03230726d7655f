package emulator

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
)

// reference is Transformer Engine's delayed scaling as its _default_get_amax and _default_sf_compute have it: a window
// of all magnitudes, whose maximum gives the next scale.
type reference struct {
	history []float32
	scale   float32
}

func (r *reference) step(largest, top float32, margin int) {
	r.history = append(r.history[1:], largest)
	amax := r.history[0]
	for _, v := range r.history {
		if v > amax || v != v {
			amax = v
		}
	}
	if amax > 0 && amax <= math.MaxFloat32 {
		r.scale = float32(float64(top/amax) / math.Exp2(float64(margin)))
	}
}

// TestDelayedScaling holds the scales of 400 steps against a window that keeps everything, with steps whose magnitude is
// 0, infinite or NaN, for histories of 1, 2, 7 and 100 steps; and the same with the state saved and restored at every step.
func TestDelayedScaling(t *testing.T) {
	const top = 448
	for _, history := range []int{1, 2, 7, 100} {
		for _, saved := range []bool{false, true} {
			random := rand.New(rand.NewPCG(uint64(history), 3))
			s := newScaling(Delayed{History: history, Margin: 2})
			want := reference{make([]float32, history), 1}
			for step := uint32(1); step <= 400; step++ {
				largest := float32(math.Exp2(6 * random.NormFloat64()))
				switch random.IntN(40) {
				case 0:
					largest = 0
				case 1:
					largest = float32(math.Inf(1))
				case 2:
					largest = float32(math.NaN())
				}
				pass, site := &bert.Pass{Step: step, Train: true}, bert.Site{Layer: 1, Op: bert.OpQuery}
				amax := s.take(pass, site, weightRole, largest/2) // of a micro-batch
				if again := s.take(pass, site, weightRole, largest); again != amax {
					t.Fatalf("step %d: micro-batches have scales of %g and %g", step, amax, again)
				}
				scale := float32(1)
				if amax > 0 {
					scale = top / amax
				}
				if math.Abs(float64(scale/want.scale)-1) > 1e-6 { // one division or two
					t.Fatalf("history %d, step %d: the scale is %g, want %g", history, step, scale, want.scale)
				}
				want.step(largest, top, 2)
				before := amax
				amax = s.take(&bert.Pass{}, site, weightRole, 3)
				if want.scale != 1 && math.Abs(float64(top/amax/want.scale)-1) > 1e-6 {
					t.Fatalf("history %d, after step %d: an evaluation has a scale of %g, want %g", history, step, top/amax, want.scale)
				}
				if saved {
					text, err := s.save()
					if err != nil {
						t.Fatal(err)
					}
					s = newScaling(s.Delayed)
					if err := s.load(text); err != nil {
						t.Fatal(err)
					}
					if again := s.take(pass, site, weightRole, largest); again != before {
						t.Fatalf("step %d: a second time the magnitude is %g, before %g", step, again, before)
					}
				}
			}
		}
	}
}

// TestScalingState: the state is short however long the history, and a damaged one is refused and changes nothing.
func TestScalingState(t *testing.T) {
	s := newScaling(Delayed{History: 1024})
	random := rand.New(rand.NewPCG(1, 2))
	for step := uint32(1); step <= 3000; step++ {
		s.take(&bert.Pass{Step: step, Train: true}, bert.Site{Op: bert.OpKey}, inputRole, float32(random.ExpFloat64()))
	}
	text, err := s.save()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1200 {
		t.Errorf("the state of one tensor has %d bytes, want tens of magnitudes at most", len(text))
	}
	for _, damaged := range []string{
		`{"tensors":[null]}`, `{"step":1,"tensors":[{"current":-2}]}`, `{"tensors":[{"kept":-1}]}`, `{"tensors":3}`,
		`{"tensors":[{"of":{"layer":1}},{"of":{"layer":1}}]}`, `{"tensors":[{"past":[{"step":3},{"step":2}]}]}`,
	} {
		if err := s.load([]byte(damaged)); err == nil || !strings.Contains(err.Error(), "state of delayed scaling") {
			t.Errorf("%s: the error is %v", damaged, err)
		}
	}
	if after, err := s.save(); err != nil || !slices.Equal(after, text) {
		t.Errorf("damaged states changed it (%v)", err)
	}
}

// TestHadamard: the transform is orthogonal, its first column of a block is the signed sum, and a product of two
// transforms is that of the matrices, also where rows are no multiple of 16.
func TestHadamard(t *testing.T) {
	const rows, columns, whole = 37, 150, 48
	random := rand.New(rand.NewPCG(4, 2))
	x, y := make([]float32, rows*columns), make([]float32, whole*columns)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	hadamard(y, x, rows, columns)
	for c := range columns {
		for block := 0; block < whole; block += hadamardSize {
			for i := range hadamardSize { // the definition: Σ x·sign·H/4, H = (-1)^(ones in i & j)
				want := 0.0
				for j := range hadamardSize {
					if r := block + j; r < rows {
						h := float64(hadamardSigns[j]) / 4
						if ones := i & j; (ones&1+ones>>1&1+ones>>2&1+ones>>3&1)%2 == 1 {
							h = -h
						}
						want += h * float64(x[r*columns+c])
					}
				}
				if got := float64(y[(block+i)*columns+c]); math.Abs(got-want) > 1e-6 { // sums of 16 values of size 1
					t.Fatalf("row %d, column %d: %g, want %g", block+i, c, got, want)
				}
			}
		}
	}
	var before, after float64
	for c := range columns {
		for r := range rows {
			before += float64(x[r*columns]) * float64(x[r*columns+c])
		}
		for r := range whole {
			after += float64(y[r*columns]) * float64(y[r*columns+c])
		}
	}
	if math.Abs(before-after) > 1e-4 {
		t.Errorf("products of columns add up to %g, of their transforms to %g", before, after)
	}
}
