package kernels

import "sync/atomic"

// gemmRowsGeneric is the twin of the micro-kernels on rows of A. It computes two rows by four columns at a time,
// with the eight sums in registers.
func gemmRowsGeneric(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, _ lines) {
	for s := 0; s < cols; s += 4 {
		n, strip := min(4, cols-s), b[s/4*next:]
		for i := 0; i < m; i += 2 {
			j := min(i+1, m-1) // an odd last row is computed twice
			sum := tile(kc, a[i*lda:], a[j*lda:], 1, strip, ldb)
			store(&sum[0], c[i*ldc+s:][:n], add)
			if j > i {
				store(&sum[1], c[j*ldc+s:][:n], add)
			}
		}
	}
}

// gemmPanelsGeneric is the twin of the micro-kernels on columns of A.
func gemmPanelsGeneric(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, _ lines) {
	for s := 0; s < cols; s += 4 {
		n, strip := min(4, cols-s), b[s/4*next:]
		for i := 0; i < m; i += 2 {
			j := min(1, m-1-i)
			panel := a[i:]
			sum := tile(kc, panel, panel[j:], lda, strip, ldb)
			store(&sum[0], c[i*ldc+s:][:n], add)
			if i+1 < m {
				store(&sum[1], c[(i+1)*ldc+s:][:n], add)
			}
		}
	}
}

// tile returns kc products of two rows of A, whose elements lie step apart, with four columns of B.
func tile(kc int, a0, a1 []float32, step int, b []float32, ldb int) [2][4]float32 {
	var c00, c01, c02, c03, c10, c11, c12, c13 float32
	for k := range kc {
		x, y, strip := a0[k*step], a1[k*step], b[k*ldb:][:4]
		b0, b1, b2, b3 := strip[0], strip[1], strip[2], strip[3]
		c00 += float32(x * b0)
		c01 += float32(x * b1)
		c02 += float32(x * b2)
		c03 += float32(x * b3)
		c10 += float32(y * b0)
		c11 += float32(y * b1)
		c12 += float32(y * b2)
		c13 += float32(y * b3)
	}
	return [2][4]float32{{c00, c01, c02, c03}, {c10, c11, c12, c13}}
}

func store(sum *[4]float32, c []float32, add bool) {
	for j := range c {
		if add {
			c[j] += sum[j]
		} else {
			c[j] = sum[j]
		}
	}
}

func copyPanelsGeneric(dst []float32, width int, src []float32, ld, kc, cols int) {
	for j := 0; j < cols; j += width {
		n := min(width, cols-j)
		for k := range kc {
			row := dst[k*width : (k+1)*width]
			copy(row, src[k*ld+j:][:n])
			clear(row[n:])
		}
		dst = dst[kc*width:]
	}
}

func transposePanelGeneric(dst []float32, width int, src []float32, ld, kc, cols int) {
	transposeRest(dst, width, src, ld, kc, cols, width)
}

// transposeRest transposes cols columns into rows of dst that lie ldd apart, and clears those from cols up to width.
func transposeRest(dst []float32, ldd int, src []float32, ld, kc, cols, width int) {
	for j := range cols {
		for k, v := range src[j*ld:][:kc] {
			dst[k*ldd+j] = v
		}
	}
	for j := cols; j < width; j++ {
		for k := range kc {
			dst[k*ldd+j] = 0
		}
	}
}

func peakGeneric(rounds int) int {
	var a, b, c, d, e, f, g, h float32
	x := float32(rounds) * 0
	for range rounds {
		a += float32(x * x)
		b += float32(x * x)
		c += float32(x * x)
		d += float32(x * x)
		e += float32(x * x)
		f += float32(x * x)
		g += float32(x * x)
		h += float32(x * x)
	}
	sink.Store(uint32(a + b + c + d + e + f + g + h))
	return rounds * 16
}

// sink keeps the compiler from removing Peak's loop.
var sink atomic.Uint32
