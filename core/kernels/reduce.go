package kernels

import "math"

// Dot returns Σ x·y. Products are exact in float64, and the sum is float64's.
func Dot(x, y []float32) float64 {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	return active.dot(x, y)
}

// SumSquares returns Σ x², in float64 like Dot. To share a long sum among workers, cut it at points that depend
// only on the length of the slice, and add the parts in order.
func SumSquares(x []float32) float64 { return active.sumSquares(x) }

// Max returns the largest element, NaN if any element is NaN, and -Inf for an empty slice.
func Max(x []float32) float32 { return active.max(x) }

// AllFinite reports whether no element is NaN or infinite.
func AllFinite(x []float32) bool { return active.allFinite(x) }

// ArgMax returns the index of the largest element, the first of several, ignoring NaN. It is 0 for an empty slice
// and where all elements are NaN.
func ArgMax(x []float32) int {
	best, at := float32(math.Inf(-1)), -1
	for i, v := range x {
		if v > best || at < 0 && v == best {
			best, at = v, i
		}
	}
	return max(at, 0)
}

// sumRows is the number of rows that ColumnSums sums in registers before it adds to y, which bounds the error of a
// long sum.
const sumRows = 64

// ColumnSums computes y[j] += Σ_i x[i·ldx + j] over rows i, for j < len(y): the gradient of a bias. Sums of 64 rows
// are added to y in order, in float32. Workers may divide the columns among them, but not the rows.
func ColumnSums(y, x []float32, rows, ldx int) {
	if rows < 0 || ldx < len(y) || rows > 0 && len(x) < (rows-1)*ldx+len(y) {
		panic("kernels: x is shorter than its rows, or ldx is shorter than y")
	}
	if len(y) == 0 {
		return
	}
	for i := 0; i < rows; i += sumRows {
		n := min(sumRows, rows-i)
		active.columnSums(y, x[i*ldx:], n, ldx)
	}
}

// lanes is the number of partial sums in dot and sumSquares: element i goes to sum i%lanes. All paths do so and
// have equal bits.
const lanes = 16

func dotGeneric(x, y []float32) float64 {
	var sum [lanes]float64
	for i, v := range x {
		sum[i%lanes] += float64(float64(v) * float64(y[i]))
	}
	return sumLanes(&sum)
}

func sumSquaresGeneric(x []float32) float64 { return dotGeneric(x, x) }

// sumLanes adds the upper half of the sums to the lower half until one is left.
func sumLanes(sum *[lanes]float64) float64 {
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			sum[i] += sum[i+n]
		}
	}
	return sum[0]
}

func maxGeneric(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v != v {
			return v
		}
		if v > m {
			m = v
		}
	}
	return m
}

func allFiniteGeneric(x []float32) bool {
	const exponent = 0xff << 23
	for _, v := range x {
		if math.Float32bits(v)&exponent == exponent {
			return false
		}
	}
	return true
}

func columnSumsGeneric(y, x []float32, rows, ldx int) {
	for j := range y {
		var sum float32
		for i := range rows {
			sum += x[i*ldx+j]
		}
		y[j] += sum
	}
}
