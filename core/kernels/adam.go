package kernels

import "math"

// Adam holds the coefficients of one step of Adam's family, for AdamW and LAMBUpdate.
//
//	g' = GradScale·g
//	m  = Beta1·m + Beta3·g'
//	v  = Beta2·v + Beta4·g'²
//	u  = Correction1·m / (sqrt(Correction2·v) + Eps) + WeightDecay·p
//
// Beta3 is 1-Beta1 (1 for LAMB without gradient averaging) and Beta4 is 1-Beta2; round them from float64.
// Correction1 = 1/(1-Beta1^t) and Correction2 = 1/(1-Beta2^t), or 1 without bias correction. Vector versions treat
// subnormal numbers as 0.
type Adam struct {
	LR, GradScale              float32
	Beta1, Beta2, Beta3, Beta4 float32
	Correction1, Correction2   float32
	Eps, WeightDecay           float32
}

// AdamW updates moments and parameters in one pass, p -= LR·u, and moves 28 bytes a parameter. Source: Loshchilov
// and Hutter 2019 (arXiv:1711.05101), algorithm 2, with the decay inside the learning rate as in PyTorch and
// google-research/bert.
func (c *Adam) AdamW(p, m, v, g []float32) {
	if len(m) != len(p) || len(v) != len(p) || len(g) != len(p) {
		panic("kernels: length of m, v or g differs from p")
	}
	active.adamW(p, m, v, g, c)
}

// LAMBUpdate is the first of LAMB's two passes: it updates the moments, writes the update u (u may be g), and
// returns Σ p² and Σ u² in float64, whose square roots give the trust ratio. The second pass is Axpy(p, -LR·ratio,
// u). LR is not used. Source: You et al. 2020 (arXiv:1904.00962), algorithm 2, as in apex's FusedLAMB.
func (c *Adam) LAMBUpdate(u, p, m, v, g []float32) (pp, uu float64) {
	if len(u) != len(p) || len(m) != len(p) || len(v) != len(p) || len(g) != len(p) {
		panic("kernels: length of u, m, v or g differs from p")
	}
	return active.lamb(u, p, m, v, g, c)
}

// update advances the moments of one parameter and returns u.
func (c *Adam) update(p, m, v, g float32) (u, m1, v1 float32) {
	g *= c.GradScale
	m = float32(c.Beta1*m) + float32(c.Beta3*g)
	v = float32(c.Beta2*v) + float32(float32(c.Beta4*g)*g)
	root := float32(math.Sqrt(float64(c.Correction2 * v)))
	return float32(c.Correction1*m)/(root+c.Eps) + float32(c.WeightDecay*p), m, v
}

func adamWGeneric(p, m, v, g []float32, c *Adam) {
	for i := range p {
		var u float32
		u, m[i], v[i] = c.update(p[i], m[i], v[i], g[i])
		p[i] -= float32(c.LR * u)
	}
}

func lambGeneric(u, p, m, v, g []float32, c *Adam) (pp, uu float64) {
	var sumP, sumU [lanes]float64
	for i := range p {
		u[i], m[i], v[i] = c.update(p[i], m[i], v[i], g[i])
		sumP[i%lanes] += float64(p[i]) * float64(p[i])
		sumU[i%lanes] += float64(u[i]) * float64(u[i])
	}
	return sumLanes(&sumP), sumLanes(&sumU)
}
