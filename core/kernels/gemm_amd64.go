//go:build !noasm

package kernels

import "unsafe"

// columnMask has a bit for each of the first n of 32 columns.
func columnMask(n int) uint32 { return uint32(1<<n - 1) }

func gemmRowsAVX512(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, ahead lines) {
	if rest := cols % 32; 0 < rest && rest < cols {
		gemmRowsAVX512(m, kc, a, lda, b[cols/32*next:], ldb, next, c[cols-rest:], ldc, rest, add, ahead)
		cols -= rest
	}
	i, strips, mask := 0, (cols+31)/32, columnMask(min(cols, 32))
	pa, pb, pc := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b), unsafe.Pointer(unsafe.SliceData(c))
	for i < m {
		ai, ci := (*float32)(unsafe.Add(pa, i*lda*4)), (*float32)(unsafe.Add(pc, i*ldc*4))
		switch left := m - i; {
		case left >= 12 && left != 16: // 8 and 8 rows are faster than 12 and 4
			gemmRows12AVX512(left/12, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += left / 12 * 12
		case left >= 8:
			gemmRows8AVX512(left/8, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += left / 8 * 8
		case left >= 4:
			gemmRows4AVX512(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += 4
		case left >= 2:
			gemmRows2AVX512(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += 2
		default:
			gemmRows1AVX512(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i++
		}
	}
}

func gemmPanelsAVX512(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, ahead lines) {
	if rest := cols % 32; 0 < rest && rest < cols {
		gemmPanelsAVX512(m, kc, a, lda, b[cols/32*next:], ldb, next, c[cols-rest:], ldc, rest, add, ahead)
		cols -= rest
	}
	i, strips, mask := 0, (cols+31)/32, columnMask(min(cols, 32))
	pa, pb, pc := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b), unsafe.Pointer(unsafe.SliceData(c))
	for i < m {
		ai, ci := (*float32)(unsafe.Add(pa, i*4)), (*float32)(unsafe.Add(pc, i*ldc*4))
		switch left := m - i; {
		case left >= 12 && left != 16:
			gemmPanel12AVX512(left/12, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += left / 12 * 12
		case left >= 8:
			gemmPanel8AVX512(left/8, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += left / 8 * 8
		case left >= 4:
			gemmPanel4AVX512(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += 4
		case left >= 2:
			gemmPanel2AVX512(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i += 2
		default:
			gemmPanel1AVX512(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, add)
			i++
		}
	}
}

func copyPanelsAVX512(dst []float32, width int, src []float32, ld, kc, cols int) {
	whole, one := copyPanels32AVX512, copyPanel32AVX512
	if width == 48 {
		whole, one = copyPanels48AVX512, copyPanel48AVX512
	}
	panels := cols / width
	if panels > 0 {
		whole(&dst[0], &src[0], ld, kc, panels)
	}
	if done := panels * width; done < cols {
		one(&dst[done*kc], &src[done], ld, kc, 1<<(cols-done)-1)
	}
}

func transposePanelAVX512(dst []float32, width int, src []float32, ld, kc, cols int) {
	blocks := kc / 16
	j := 0
	for ; j+16 <= cols && blocks > 0; j += 16 {
		transpose16AVX512(&dst[j], width, &src[j*ld], ld, blocks)
		for jj := j; jj < j+16; jj++ { // the end of each row if K is not a multiple of 16
			for k := 16 * blocks; k < kc; k++ {
				dst[k*width+jj] = src[jj*ld+k]
			}
		}
	}
	if j < width {
		transposeRest(dst[j:], width, src[min(j*ld, len(src)):], ld, kc, cols-j, width-j)
	}
}
func gemmRowsAVX2(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, ahead lines) {
	if rest := cols % 16; rest > 0 {
		throughTile(gemmRowsAVX2, m, kc, a, lda, lda, b[cols/16*next:], ldb, c[cols-rest:], ldc, rest, add, ahead)
		if cols -= rest; cols == 0 {
			return
		}
	}
	strips := cols / 16
	pa, pb, pc := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b), unsafe.Pointer(unsafe.SliceData(c))
	for i := 0; i < m; {
		ai, ci := (*float32)(unsafe.Add(pa, i*lda*4)), (*float32)(unsafe.Add(pc, i*ldc*4))
		switch left := m - i; {
		case left >= 6:
			gemmRows6AVX2(left/6, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i += left / 6 * 6
		case left >= 4:
			gemmRows4AVX2(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i += 4
		case left >= 2:
			gemmRows2AVX2(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i += 2
		default:
			gemmRows1AVX2(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i++
		}
	}
}

func gemmPanelsAVX2(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool, ahead lines) {
	if rest := cols % 16; rest > 0 {
		throughTile(gemmPanelsAVX2, m, kc, a, lda, 1, b[cols/16*next:], ldb, c[cols-rest:], ldc, rest, add, ahead)
		if cols -= rest; cols == 0 {
			return
		}
	}
	strips := cols / 16
	pa, pb, pc := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b), unsafe.Pointer(unsafe.SliceData(c))
	for i := 0; i < m; {
		ai, ci := (*float32)(unsafe.Add(pa, i*4)), (*float32)(unsafe.Add(pc, i*ldc*4))
		switch left := m - i; {
		case left >= 6:
			gemmPanel6AVX2(left/6, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i += left / 6 * 6
		case left >= 4:
			gemmPanel4AVX2(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i += 4
		case left >= 2:
			gemmPanel2AVX2(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i += 2
		default:
			gemmPanel1AVX2(1, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, add)
			i++
		}
	}
}

// throughTile computes a strip with fewer columns than the kernels write. It computes panel by panel in a buffer
// and copies the columns that exist. Rows, or panels, of A are apart floats from each other.
func throughTile(kernel microKernel, m, kc int, a []float32, lda, apart int, b []float32, ldb int, c []float32,
	ldc, cols int, add bool, ahead lines) {
	var tile [6 * 16]float32
	for i := 0; i < m; i += 6 {
		rows := min(6, m-i)
		kernel(rows, kc, a[i*apart:], lda, b, ldb, 0, tile[:], 16, 16, false, ahead)
		for r := range rows {
			row := c[(i+r)*ldc:][:cols]
			for j, v := range tile[r*16:][:cols] {
				if add {
					v += row[j]
				}
				row[j] = v
			}
		}
	}
}
