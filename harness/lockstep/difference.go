package lockstep

import (
	"math"

	"harness.invalid/core/numerics"
	"harness.invalid/results"
)

// values are a tensor of one side.
type values struct {
	of     []float32
	scale  float64 // the loss scale of gradients, by which the values are multiplied; else 1
	format numerics.Format
	name   string // of the format; "": unknown
}

// smallest is the smallest normal number of the format: 2^-14 for FP16, 2^-126 for formats with the exponent range
// of FP32.
func (v *values) smallest() float64 {
	if v.format == numerics.FP16 {
		return 0x1p-14
	}
	return 0x1p-126
}

// overflowed reports whether a value left the range of the format. FP16 may saturate at its largest number.
func (v *values) overflowed(x float64) bool {
	return x-x != 0 || v.format == numerics.FP16 && math.Abs(x) >= float64(v.format.Max())
}

// compare compares two tensors of the same length in float64. The relative difference is that to the norm of the
// first tensor, or to least if that is larger.
//
//	d = b - a    m = (a + b)/2    bias β = Σ d·m / Σ m²    its variance = Σ (d - β·m)²·m² / (Σ m²)²
//
// The difference is regressed on the mean of both sides because both have errors. In a regression on one side,
// independent errors of that side would look like a bias.
//
// Sources: Bland and Altman 1986, Lancet 327:307, for the mean; White 1980, Econometrica 48:817, for the variance.
func compare(pair [2]values, least float64) Difference {
	a, b := &pair[0], &pair[1]
	n := len(a.of)
	var squares, products, middles float64
	var norms, underflowed [2]float64
	var zero, subnormal, overflow [2]int
	broken := false
	each := func(body func(x, y float64)) {
		for i := range a.of {
			body(float64(a.of[i]), float64(b.of[i]))
		}
	}
	each(func(x, y float64) {
		raw := [2]float64{x, y}
		x, y = x/a.scale, y/b.scale
		d := y - x
		finite := d-d == 0
		for k, v := range [2]*values{a, b} {
			switch size := math.Abs(raw[k]); {
			case v.overflowed(raw[k]):
				overflow[k]++
			case size < v.smallest():
				if size > 0 {
					subnormal[k]++
				} else if raw[1-k] != 0 {
					zero[k]++
				} else {
					continue
				}
				if finite {
					underflowed[k] += d * d
				}
			}
		}
		if !finite {
			broken = true
			return
		}
		m := (x + y) / 2
		squares += d * d
		products += d * m
		middles += m * m
		norms[0] += x * x
		norms[1] += y * y
	})
	r := Difference{Count: n}
	for k, v := range [2]*values{a, b} {
		s := Values{Format: v.name, Norm: results.Number(math.Sqrt(norms[k]))}
		if n > 0 {
			s.Zero, s.Subnormal, s.Overflow = float64(zero[k])/float64(n), float64(subnormal[k])/float64(n), float64(overflow[k])/float64(n)
		}
		if squares > 0 {
			s.Underflowed = underflowed[k] / squares
		}
		r.Sides[k] = s
	}
	against := max(math.Sqrt(norms[0]), least)
	r.Against = results.Number(against)
	switch {
	case broken:
		r.Relative = results.Number(math.Inf(1))
	case squares > 0:
		r.Relative = results.Number(math.Sqrt(squares) / against) // infinite if the first side is all zero
	}
	if middles == 0 || squares == 0 {
		return r
	}
	bias := products / middles
	var variance float64
	each(func(x, y float64) {
		x, y = x/a.scale, y/b.scale
		if d := y - x; d-d == 0 {
			m := (x + y) / 2
			variance += (d - bias*m) * (d - bias*m) * m * m
		}
	})
	r.Bias, r.BiasError, r.Explained = results.Number(bias), results.Number(math.Sqrt(variance)/middles), bias*bias*middles/squares
	return r
}

// updateRounding accumulates how weights were stored after updates.
//
//	u = updated - before    k = kept - before    slope β = Σ k·u / Σ u²    its variance = Σ (k - β·u)²·u² / (Σ u²)²
type updateRounding struct {
	squares, products, fourths, cross, rest float64
	changed, lost                           int
}

func (u *updateRounding) add(before, updated, kept []float32) {
	for i, w := range before {
		c, k := float64(updated[i])-float64(w), float64(kept[i])-float64(w)
		if c == 0 || c-c != 0 || k-k != 0 {
			continue
		}
		u.changed++
		if k == 0 {
			u.lost++
		}
		u.squares += c * c
		u.products += k * c
		u.fourths += c * c * c * c
		u.cross += k * c * c * c
		u.rest += k * k * c * c
	}
}

func (u *updateRounding) sum(v updateRounding) {
	u.squares += v.squares
	u.products += v.products
	u.fourths += v.fourths
	u.cross += v.cross
	u.rest += v.rest
	u.changed += v.changed
	u.lost += v.lost
}

// kept is nil if no weight changed.
func (u *updateRounding) kept() *Kept {
	if u.changed == 0 || u.squares == 0 {
		return nil
	}
	part := u.products / u.squares
	variance := max(0, u.rest-2*part*u.cross+part*part*u.fourths)
	return &Kept{
		Part: results.Number(part), Error: results.Number(math.Sqrt(variance) / u.squares), Lost: float64(u.lost) / float64(u.changed),
	}
}
