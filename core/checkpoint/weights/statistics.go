package weights

import "math"

// Statistics describe the values of a tensor. Values that are not finite are only counted.
type Statistics struct {
	Min, Max float64
	Mean     float64
	Std      float64 // of the population: √(Σ(x-mean)²/n)
	Zeros    int
	NaNs     int
	Infs     int
}

// Statistics reads the values once, a piece at a time. ok is false for a type whose values are no numbers or not
// known here, and a tensor that has none.
func (t Tensor) Statistics() (s Statistics, ok bool, err error) {
	toFloats := floatDecoder[float64](t.DType)
	toInts := intDecoder(t.DType)
	if toFloats == nil && toInts == nil || t.Shape.Len() == 0 {
		return s, false, t.sum.verify()
	}
	values, ints := make([]float64, min(chunk, t.Shape.Len())), []int64(nil)
	if toFloats == nil {
		ints = make([]int64, len(values))
	}
	s.Min, s.Max = math.Inf(1), math.Inf(-1)
	count, squares := 0.0, 0.0
	err = t.chunks(func(src []byte, _, n int) error {
		if toFloats != nil {
			toFloats(values[:n], src)
		} else {
			toInts(ints[:n], src)
			for i, v := range ints[:n] {
				values[i] = float64(v)
			}
		}
		sum, finite := 0.0, 0.0
		for _, v := range values[:n] {
			if v-v != 0 {
				if v != v {
					s.NaNs++
				} else {
					s.Infs++
				}
				continue
			}
			if v == 0 {
				s.Zeros++
			}
			if v < s.Min {
				s.Min = v
			}
			if v > s.Max {
				s.Max = v
			}
			sum += v
			finite++
		}
		if finite == 0 {
			return nil
		}
		// The piece's own mean and squares, then both pieces together: Chan, Golub, LeVeque 1979. It loses no
		// digits to a large mean.
		mean, own := sum/finite, 0.0
		for _, v := range values[:n] {
			if d := v - mean; d-d == 0 {
				own += d * d
			}
		}
		d, all := mean-s.Mean, count+finite
		s.Mean += d * finite / all
		squares += own + d*d*count*finite/all
		count = all
		return nil
	})
	if err != nil {
		return s, false, err
	}
	if count == 0 {
		s.Min, s.Max, s.Mean = math.NaN(), math.NaN(), math.NaN()
	}
	s.Std = math.Sqrt(squares / count)
	return s, true, nil
}
