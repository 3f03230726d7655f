package kernels

import "math"

// LayerNorm computes y = (x - μ)/sqrt(σ² + eps)·gamma + beta over every row of H = len(gamma) elements.
//
//	x, y         [rows, H]  y may be x
//	gamma, beta  [H]
//	mean, rstd   [rows]     μ and 1/sqrt(σ² + eps), kept for LayerNormGrad
//
// σ² is the biased variance, from a second pass over x - μ. Sums are float32, in the order of the path. Source: Ba,
// Kiros, Hinton 2016 (arXiv:1607.06450); BERT has eps = 1e-12.
func LayerNorm(y, mean, rstd, x, gamma, beta []float32, eps float32) {
	h := len(gamma)
	if len(beta) != h || len(x) != len(y) || len(rstd) != len(mean) || len(y) != len(mean)*h {
		panic("kernels: layer norm shapes differ")
	}
	for i := range mean {
		r := i * h
		mean[i], rstd[i] = active.layerNorm(y[r:r+h], x[r:r+h], gamma, beta, eps)
	}
}

// LayerNormGrad is the backward pass of LayerNorm: with x̂ = (x - mean)·rstd and g = dy·gamma, for every row
//
//	dx      = rstd·(g - avg(g) - x̂·avg(g·x̂))    [rows, H], may be dy
//	dgamma += dy·x̂                               [H]
//	dbeta  += dy                                 [H]
//
// dgamma and dbeta are summed in float32 in the order of the rows. To get bits that do not depend on the number of
// workers, give each block of GradRows rows its own sums, and add those in order with ColumnSums.
func LayerNormGrad(dx, dgamma, dbeta, dy, x, gamma, mean, rstd []float32) {
	h := len(gamma)
	if len(dgamma) != h || len(dbeta) != h || len(dx) != len(dy) || len(x) != len(dy) || len(rstd) != len(mean) || len(dy) != len(mean)*h {
		panic("kernels: layer norm shapes differ")
	}
	for i := range mean {
		r := i * h
		active.layerNormGrad(dx[r:r+h], dgamma, dbeta, dy[r:r+h], x[r:r+h], gamma, mean[i], rstd[i])
	}
}

// Normalise computes y = (x - mean)·rstd·gamma + beta for one row, each operation rounded. y may be x.
func Normalise(y, x, gamma, beta []float32, mean, rstd float32) {
	if len(x) != len(y) || len(gamma) != len(y) || len(beta) != len(y) {
		panic("kernels: layer norm shapes differ")
	}
	active.normalise(y, x, gamma, beta, mean, rstd)
}

// GradRows is the number of rows in a block with its own sums, see LayerNormGrad.
const GradRows = 64

func layerNormGeneric(y, x, gamma, beta []float32, eps float32) (mean, rstd float32) {
	if len(x) == 0 {
		return 0, 0
	}
	n := float32(len(x))
	var sum float32
	for _, v := range x {
		sum += v
	}
	mean = sum / n
	var squares float32
	for _, v := range x {
		d := v - mean
		squares += float32(d * d)
	}
	rstd = float32(1 / math.Sqrt(float64(squares/n+eps)))
	normaliseGeneric(y, x, gamma, beta, mean, rstd)
	return mean, rstd
}

func layerNormGradGeneric(dx, dgamma, dbeta, dy, x, gamma []float32, mean, rstd float32) {
	var sum, sumX float32
	for i, d := range dy {
		xhat := (x[i] - mean) * rstd
		g := d * gamma[i]
		sum += g
		sumX += float32(g * xhat)
		dgamma[i] += float32(d * xhat)
		dbeta[i] += d
	}
	n := float32(len(dy))
	avg, avgX := sum/n, sumX/n
	for i, d := range dy {
		xhat := (x[i] - mean) * rstd
		dx[i] = rstd * (float32(d*gamma[i]) - avg - float32(xhat*avgX))
	}
}

func normaliseGeneric(y, x, gamma, beta []float32, mean, rstd float32) {
	for i, v := range x {
		y[i] = float32((v-mean)*rstd*gamma[i]) + beta[i]
	}
}
