package kernels

import "math"

// Softmax computes y = softmax(scale·x + mask) for one row. mask is added element by element; nil adds nothing. y
// may be x. Exponentials are as accurate as Exp's and summed in float32. Vector versions return 0 for exponents
// below -80, since subnormal numbers would slow down what follows. A row with only -Inf gives NaN.
func Softmax(y, x, mask []float32, scale float32) {
	if len(x) != len(y) || mask != nil && len(mask) != len(y) {
		panic("kernels: length of x or mask differs from y")
	}
	if len(y) > 0 {
		active.softmax(y, x, mask, scale)
	}
}

// SoftmaxGrad computes dx = scale·y·(dy - Σ dy·y) for one row: the gradient of Softmax with respect to x, where y is
// what Softmax returned. dx may be dy or y.
func SoftmaxGrad(dx, dy, y []float32, scale float32) {
	if len(dy) != len(dx) || len(y) != len(dx) {
		panic("kernels: length of dy or y differs from dx")
	}
	active.softmaxGrad(dx, dy, y, scale)
}

// CrossEntropy returns the loss of one row of logits, log Σ exp(x) - x[label], and replaces the logits by the
// gradient of weight·loss: (softmax(x) - onehot(label))·weight. top is Max(x), which callers know already.
func CrossEntropy(x []float32, top float32, label int, weight float32) (loss float32) {
	if label < 0 || label >= len(x) {
		panic("kernels: label is not an index of the logits")
	}
	at := x[label] - top
	sum := active.expSum(x, x, top)
	active.scale(x, weight/sum, x)
	x[label] -= weight
	return float32(math.Log(float64(sum)) - float64(at))
}

// LogSumExp returns log Σ exp(x) of one row, using scratch, a slice of the same length that may be x itself. top is
// Max(x).
func LogSumExp(x []float32, top float32, scratch []float32) float32 {
	if len(scratch) != len(x) {
		panic("kernels: length of scratch differs from x")
	}
	return float32(float64(top) + math.Log(float64(active.expSum(scratch, x, top))))
}

// expSumGeneric computes y = exp(x - top) and returns the sum.
func expSumGeneric(y, x []float32, top float32) float32 {
	var sum float32
	for i, v := range x {
		y[i] = float32(math.Exp(float64(v - top)))
		sum += y[i]
	}
	return sum
}

func softmaxGeneric(y, x, mask []float32, scale float32) {
	for i, v := range x {
		y[i] = scale * v
	}
	if mask != nil {
		addGeneric(y, y, mask)
	}
	sum := expSumGeneric(y, y, maxGeneric(y))
	scaleGeneric(y, 1/sum, y)
}

func softmaxGradGeneric(dx, dy, y []float32, scale float32) {
	var sum float32
	for i, v := range y {
		sum += float32(dy[i] * v)
	}
	for i, v := range y {
		dx[i] = scale * v * (dy[i] - sum)
	}
}
