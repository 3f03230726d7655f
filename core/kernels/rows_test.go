package kernels

import (
	"math"
	"slices"
	"testing"
)

// TestNormalise: all levels have the same bits.
func TestNormalise(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for _, h := range []int{0, 1, 15, 16, 17, 33, 64, 100, 128, 257} {
			x, gamma, beta := normals(h, 1), normals(h, 2), normals(h, 3)
			y, intact := guarded(t, h, 1)
			Normalise(y, x, gamma, beta, 0.3, 1.7)
			intact()
			want := make([]float32, h)
			normaliseGeneric(want, x, gamma, beta, 0.3, 1.7)
			if !slices.Equal(y, want) {
				t.Errorf("%d elements: %v, want %v", h, y, want)
			}
		}
	})
}

// TestLayerNorm holds forward and backward against float64. Sums of H terms of size one in float32 are wrong by
// less than H·2^-24 of their size relative to the average; 2e-5 leaves a factor of ten at H = 5000.
func TestLayerNorm(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for _, h := range []int{1, 2, 3, 15, 16, 17, 31, 64, 65, 100, 128, 200, 256, 312, 768, 1000} {
			const rows, eps = 5, 1e-12
			x, dy := normals(rows*h, 1), normals(rows*h, 2)
			for i := range x {
				x[i] = 2*x[i] + 3
			}
			gamma, beta := normals(h, 3), normals(h, 4)
			y, intact := guarded(t, rows*h, 1)
			dx, intact2 := guarded(t, rows*h, 2)
			mean, rstd := make([]float32, rows), make([]float32, rows)
			LayerNorm(y, mean, rstd, x, gamma, beta, eps)
			dgamma, dbeta := make([]float32, h), make([]float32, h)
			dgamma[0], dbeta[0] = 5, 7
			LayerNormGrad(dx, dgamma, dbeta, dy, x, gamma, mean, rstd)
			intact()
			intact2()
			wantGamma, wantBeta := make([]float64, h), make([]float64, h)
			wantGamma[0], wantBeta[0] = 5, 7
			for r := range rows {
				row := x[r*h : (r+1)*h]
				var mu, variance float64
				for _, v := range row {
					mu += float64(v) / float64(h)
				}
				for _, v := range row {
					variance += (float64(v) - mu) * (float64(v) - mu) / float64(h)
				}
				rs := 1 / math.Sqrt(variance+eps)
				if h == 1 {
					rs = float64(rstd[r]) // 1/sqrt(eps) times the rounding error of a difference that is 0
				}
				if !close(float64(mean[r]), mu, 1e-5) || math.Abs(float64(rstd[r])/rs-1) > 1e-4 {
					t.Fatalf("H %d: mean %v, rstd %v, want %v, %v", h, mean[r], rstd[r], mu, rs)
				}
				var avg, avgX float64
				for j, v := range row {
					g := float64(dy[r*h+j]) * float64(gamma[j])
					avg += g / float64(h)
					avgX += g * (float64(v) - mu) * rs / float64(h)
				}
				for j, v := range row {
					xhat := (float64(v) - mu) * rs
					if want := xhat*float64(gamma[j]) + float64(beta[j]); !close(float64(y[r*h+j]), want, 2e-5) {
						t.Fatalf("H %d: y[%d, %d] = %v, want %v", h, r, j, y[r*h+j], want)
					}
					d := float64(dy[r*h+j])
					wantGamma[j] += d * xhat
					wantBeta[j] += d
					if want := rs * (d*float64(gamma[j]) - avg - xhat*avgX); h > 2 && !close(float64(dx[r*h+j]), want, 1e-4) {
						t.Fatalf("H %d: dx[%d, %d] = %v, want %v", h, r, j, dx[r*h+j], want)
					}
				}
			}
			for j := range dgamma {
				if !close(float64(dgamma[j]), wantGamma[j], 1e-4) || !close(float64(dbeta[j]), wantBeta[j], 1e-5) {
					t.Fatalf("H %d: dgamma, dbeta[%d] = %v, %v, want %v, %v", h, j, dgamma[j], dbeta[j], wantGamma[j], wantBeta[j])
				}
			}
			LayerNorm(x, mean, rstd, x, gamma, beta, eps)
			for i := range x {
				if word(x[i]) != word(y[i]) {
					t.Fatalf("H %d: element %d differs in place", h, i)
				}
			}
		}
	})
}

// TestSoftmax: exponentials within 2^-22 and a sum within n·2^-24 of its size, so n·2^-23 + 2^-21 covers each
// probability; what is below e^-80 may be 0.
func TestSoftmax(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		shapes(t, func(n, offset int) {
			for _, withMask := range []bool{false, true} {
				x, dy := normals(n, 1), normals(n, 2)
				var mask []float32
				if withMask {
					mask = make([]float32, n)
					for i := range mask {
						if i%3 == 1 {
							mask[i] = -10000
						}
					}
				}
				const scale = 0.125
				y, intact := guarded(t, n, offset)
				dx, intact2 := guarded(t, n, offset)
				Softmax(y, x, mask, scale)
				SoftmaxGrad(dx, dy, y, scale)
				intact()
				intact2()
				z := make([]float64, n)
				top, sum := math.Inf(-1), 0.0
				for i, v := range x {
					z[i] = scale * float64(v)
					if mask != nil {
						z[i] += float64(mask[i])
					}
					top = max(top, z[i])
				}
				for i := range z {
					z[i] = math.Exp(z[i] - top)
					sum += z[i]
				}
				dot := 0.0
				for i := range z {
					z[i] /= sum
					dot += z[i] * float64(dy[i])
				}
				tol := float64(n)*0x1p-23 + 0x1p-21
				for i := range z {
					if math.Abs(float64(y[i])-z[i]) > tol*z[i]+2e-35 {
						t.Fatalf("n %d: y[%d] = %v, want %v", n, i, y[i], z[i])
					}
					if want := scale * z[i] * (float64(dy[i]) - dot); math.Abs(float64(dx[i])-want) > 8*tol*z[i]+2e-35 {
						t.Fatalf("n %d: dx[%d] = %v, want %v", n, i, dx[i], want)
					}
				}
				Softmax(x, x, mask, scale)
				for i := range x {
					if word(x[i]) != word(y[i]) {
						t.Fatalf("n %d: element %d differs in place", n, i)
					}
				}
			}
		})
	})
}

func TestSoftmaxOfNaN(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		x := normals(50, 1)
		x[33] = float32(math.NaN())
		Softmax(x, x, nil, 1)
		for i, v := range x {
			if v == v {
				t.Fatalf("element %d of a row with NaN is %v", i, v)
			}
		}
	})
}

func TestCrossEntropy(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 2, 3, 17, 100, 1000, 30522} {
			x := normals(n, 1)
			for i := range x {
				x[i] = 4*x[i] - 20
			}
			label, top, sum := n/2, math.Inf(-1), 0.0
			for _, v := range x {
				top = max(top, float64(v))
			}
			for _, v := range x {
				sum += math.Exp(float64(v) - top)
			}
			want := math.Log(sum) + top
			if got := LogSumExp(x, Max(x), make([]float32, n)); !close(float64(got), want, float64(n)*0x1p-24+1e-6) {
				t.Errorf("n %d: log sum exp %v, want %v", n, got, want)
			}
			logits := clone(x)
			const weight = 0.25
			// A sum of n exponentials in 16 float32 lanes or one: n·2^-24 relative, but the twin's single chain sets the bound.
			tol := float64(n)*0x1p-24 + 1e-6
			if got := CrossEntropy(x, Max(x), label, weight); !close(float64(got), want-float64(logits[label]), tol) {
				t.Errorf("n %d: loss %v, want %v", n, got, want-float64(logits[label]))
			}
			for i, v := range logits {
				g := math.Exp(float64(v)-want) * weight
				if i == label {
					g -= weight
				}
				if math.Abs(float64(x[i])-g) > tol*weight {
					t.Fatalf("n %d: gradient %d is %v, want %v", n, i, x[i], g)
				}
			}
		}
	})
}

func testAdam() *Adam {
	const b1, b2 = 0.9, 0.999
	return &Adam{LR: 1e-3, GradScale: 0.5, Beta1: b1, Beta2: b2, Beta3: 1 - b1, Beta4: 1 - b2,
		Correction1: 1 / (1 - b1), Correction2: 1 / (1 - b2), Eps: 1e-6, WeightDecay: 0.01}
}

// TestAdam compares AdamW and LAMBUpdate of every level with float64. Each of u's dozen operations rounds once,
// hence 2^-20.
func TestAdam(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		shapes(t, func(n, offset int) {
			c := testAdam()
			g := normals(n, 4)
			var p, m, v [2][]float32
			var intact []func()
			for i := range 2 {
				for at, x := range []*[]float32{&p[i], &m[i], &v[i]} {
					var check func()
					*x, check = guarded(t, n, (offset+at)%5)
					copy(*x, normals(n, uint64(at)))
					intact = append(intact, check)
				}
				for j, x := range v[i] {
					v[i][j] = x * x
				}
			}
			before := [3][]float32{clone(p[0]), clone(m[0]), clone(v[0])}
			c.AdamW(p[0], m[0], v[0], g)
			u := clone(g)
			pp, uu := c.LAMBUpdate(u, p[1], m[1], v[1], u)
			for _, check := range intact {
				check()
			}
			var wantPP, wantUU float64
			for i := range g {
				p0, m0, v0 := float64(before[0][i]), float64(before[1][i]), float64(before[2][i])
				scaled := float64(c.GradScale) * float64(g[i])
				wantM := float64(c.Beta1)*m0 + float64(c.Beta3)*scaled
				wantV := float64(c.Beta2)*v0 + float64(c.Beta4)*scaled*scaled
				wantU := float64(c.Correction1)*wantM/(math.Sqrt(float64(c.Correction2)*wantV)+float64(c.Eps)) + float64(c.WeightDecay)*p0
				for _, k := range []int{0, 1} {
					if !close(float64(m[k][i]), wantM, 0x1p-20) || !close(float64(v[k][i]), wantV, 0x1p-20) {
						t.Fatalf("n %d: m, v[%d] = %v, %v, want %v, %v", n, i, m[k][i], v[k][i], wantM, wantV)
					}
				}
				if !close(float64(u[i]), wantU, 0x1p-20) || word(p[1][i]) != word(before[0][i]) {
					t.Fatalf("n %d: u[%d] = %v, want %v", n, i, u[i], wantU)
				}
				if want := p0 - float64(c.LR)*wantU; !close(float64(p[0][i]), want, 0x1p-20) {
					t.Fatalf("n %d: p[%d] = %v, want %v", n, i, p[0][i], want)
				}
				wantPP += p0 * p0
				wantUU += float64(u[i]) * float64(u[i])
			}
			if !close(pp, wantPP, 1e-12) || !close(uu, wantUU, 1e-12) {
				t.Fatalf("n %d: sums of squares %v, %v, want %v, %v", n, pp, uu, wantPP, wantUU)
			}
		})
	})
}

// TestAdamOfZeros: zero moments do not give 0/0.
func TestAdamOfZeros(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		p, m, v, g := make([]float32, 20), make([]float32, 20), make([]float32, 20), make([]float32, 20)
		testAdam().AdamW(p, m, v, g)
		for i := range p {
			if p[i] != 0 || m[i] != 0 || v[i] != 0 {
				t.Fatalf("element %d: p, m, v = %v, %v, %v", i, p[i], m[i], v[i])
			}
		}
	})
}

func BenchmarkRows(b *testing.B) {
	for _, h := range []int{128, 768} {
		rows := 4096 / h
		n := rows * h
		x, dy, y := normals(n, 1), normals(n, 2), make([]float32, n)
		gamma, beta, dgamma, dbeta := normals(h, 3), normals(h, 4), make([]float32, h), make([]float32, h)
		mean, rstd := make([]float32, rows), make([]float32, rows)
		for name, f := range map[string]func(){
			"LayerNorm":     func() { LayerNorm(y, mean, rstd, x, gamma, beta, 1e-12) },
			"LayerNormGrad": func() { LayerNormGrad(y, dgamma, dbeta, dy, x, gamma, mean, rstd) },
			"Softmax": func() {
				for i := 0; i < n; i += h {
					Softmax(y[i:i+h], x[i:i+h], gamma, 0.125)
				}
			},
			"SoftmaxGrad": func() {
				for i := 0; i < n; i += h {
					SoftmaxGrad(y[i:i+h], dy[i:i+h], x[i:i+h], 0.125)
				}
			},
		} {
			LayerNorm(y, mean, rstd, x, gamma, beta, 1e-12)
			b.Run(name+"/"+map[int]string{128: "128", 768: "768"}[h], func(b *testing.B) { perElement(b, n, f) })
		}
	}
}

func BenchmarkAdam(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"L1", 2048}, {"memory", 16 << 20}} {
		n := size.n
		p, m, v, g := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		c := testAdam()
		b.Run("AdamW/"+size.name, func(b *testing.B) { b.SetBytes(28 * int64(n)); perElement(b, n, func() { c.AdamW(p, m, v, g) }) })
		b.Run("LAMBUpdate/"+size.name, func(b *testing.B) {
			b.SetBytes(28 * int64(n))
			perElement(b, n, func() { c.LAMBUpdate(g, p, m, v, g) })
		})
	}
}

// TestAdamRestoresSubnormals: vector versions switch subnormal numbers off only while they run.
func TestAdamRestoresSubnormals(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		p, m, v, g := normals(64, 1), normals(64, 2), make([]float32, 64), normals(64, 3)
		testAdam().AdamW(p, m, v, g)
		testAdam().LAMBUpdate(g, p, m, v, g)
		tiny := []float32{1e-30}
		scaleGeneric(tiny, 1e-10, tiny)
		if tiny[0] == 0 {
			t.Error("1e-30 · 1e-10 is 0 afterwards, want a subnormal number")
		}
	})
}
