package kernels

// Add computes z = x + y. z may be x or y.
func Add(z, x, y []float32) {
	if len(x) != len(z) || len(y) != len(z) {
		panic("kernels: length of x or y differs from z")
	}
	active.add(z, x, y)
}

// Mul computes z = x · y, element by element. z may be x or y.
func Mul(z, x, y []float32) {
	if len(x) != len(z) || len(y) != len(z) {
		panic("kernels: length of x or y differs from z")
	}
	active.mul(z, x, y)
}

// AddBias computes y = x + bias for every row of len(bias) elements. y may be x.
func AddBias(y, x, bias []float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	n := len(bias)
	if n == 0 && len(y) != 0 || n != 0 && len(y)%n != 0 {
		panic("kernels: length of y is not a multiple of bias")
	}
	for i := 0; i < len(y); i += n {
		active.add(y[i:i+n], x[i:i+n], bias)
	}
}

// Axpy computes y += a · x. Vector versions fuse the product and the sum.
func Axpy(y []float32, a float32, x []float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	active.axpy(y, a, x)
}

// Scale computes y = a · x. y may be x.
func Scale(y []float32, a float32, x []float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	active.scale(y, a, x)
}

// Exp computes y = e^x with a relative error below 2^-22 (three units in the last place), 0 below -104 and +Inf
// above 88.73. y may be x.
func Exp(y, x []float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	active.exp(y, x)
}

// Tanh computes y = tanh(x) with a relative error below 2^-21. y may be x.
func Tanh(y, x []float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	active.tanh(y, x)
}

// TanhGrad computes dx = dy · (1 - y²), where y = tanh(x) is what Tanh returned. dx may be dy or y.
func TanhGrad(dx, dy, y []float32) {
	if len(dy) != len(dx) || len(y) != len(dx) {
		panic("kernels: length of dy or y differs from dx")
	}
	active.tanhGrad(dx, dy, y)
}

// GeluErf computes y = x·Φ(x), Φ the standard normal distribution function: the exact form, BERT's "gelu". The
// absolute error is below 2^-22·max(1, |x|). y may be x. Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415).
func GeluErf(y, x []float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	active.geluErf(y, x)
}

// GeluErfGrad computes dx = dy · (Φ(x) + x·φ(x)), φ the standard normal density. The factor's absolute error is
// below 2^-21. dx may be dy or x.
func GeluErfGrad(dx, dy, x []float32) {
	if len(dy) != len(dx) || len(x) != len(dx) {
		panic("kernels: length of dy or x differs from dx")
	}
	active.geluErfGrad(dx, dy, x)
}

// GeluTanh computes y = x/2 · (1 + tanh(u)), u = sqrt(2/π)·(x + 0.044715·x³): the approximation that
// google-research/bert and the IPU use, "gelu_new" at Hugging Face. The absolute error is below 2^-22·max(1, |x|).
// y may be x.
func GeluTanh(y, x []float32) {
	if len(x) != len(y) {
		panic("kernels: length of x differs from y")
	}
	active.geluTanh(y, x)
}

// GeluTanhGrad computes dx = dy · dGeluTanh/dx. The factor's absolute error is below 2^-20. dx may be dy or x.
func GeluTanhGrad(dx, dy, x []float32) {
	if len(dy) != len(dx) || len(x) != len(dx) {
		panic("kernels: length of dy or x differs from dx")
	}
	active.geluTanhGrad(dx, dy, x)
}
