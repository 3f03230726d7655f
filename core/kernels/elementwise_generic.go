package kernels

import "math"

func addGeneric(z, x, y []float32) {
	for i := range z {
		z[i] = x[i] + y[i]
	}
}

func mulGeneric(z, x, y []float32) {
	for i := range z {
		z[i] = x[i] * y[i]
	}
}

func axpyGeneric(y []float32, a float32, x []float32) {
	for i := range y {
		y[i] += float32(a * x[i])
	}
}

func scaleGeneric(y []float32, a float32, x []float32) {
	for i := range y {
		y[i] = a * x[i]
	}
}

func expGeneric(y, x []float32) {
	for i, v := range x {
		y[i] = float32(math.Exp(float64(v)))
	}
}

func tanhGeneric(y, x []float32) {
	for i, v := range x {
		y[i] = float32(math.Tanh(float64(v)))
	}
}

func tanhGradGeneric(dx, dy, y []float32) {
	for i, v := range y {
		dx[i] = dy[i] * (1 - float32(v*v))
	}
}

// normal returns the standard normal distribution function and density at x.
func normal(x float64) (cdf, pdf float64) {
	return 0.5 * math.Erfc(-x/math.Sqrt2), math.Exp(-0.5*x*x) / math.Sqrt(2*math.Pi)
}

func geluErfGeneric(y, x []float32) {
	for i, v := range x {
		cdf, _ := normal(float64(v))
		y[i] = float32(float64(max(v, -math.MaxFloat32)) * cdf)
	}
}

func geluErfGradGeneric(dx, dy, x []float32) {
	for i, v := range x {
		cdf, pdf := normal(float64(v))
		dx[i] = dy[i] * float32(cdf+clamp(v)*pdf)
	}
}

// clamp replaces infinities by the largest float32 of their sign: its product with a probability or density of 0 is
// 0, the limit, and not NaN.
func clamp(x float32) float64 {
	return float64(max(min(x, math.MaxFloat32), -math.MaxFloat32))
}

// sqrt2OverPi and cubic are the constants of the tanh form.
const (
	sqrt2OverPi = 0.79788456080286535588
	cubic       = 0.044715
)

func geluTanhGeneric(y, x []float32) {
	for i, v := range x {
		x := float64(max(v, -math.MaxFloat32))
		y[i] = float32(x * 0.5 * (1 + math.Tanh(sqrt2OverPi*(x+cubic*x*x*x))))
	}
}

func geluTanhGradGeneric(dx, dy, x []float32) {
	for i, v := range x {
		x := clamp(v)
		t := math.Tanh(sqrt2OverPi * (x + cubic*x*x*x))
		dx[i] = dy[i] * float32(0.5*(1+t)+0.5*x*(1-t*t)*sqrt2OverPi*(1+3*cubic*x*x))
	}
}
