//go:build !noasm

package kernels

import (
	"math"
	"unsafe"

	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// overflowBits returns the float32 bits that replace a finite value too large for FP16.
func overflowBits(o numerics.Overflow) uint32 {
	switch o {
	case numerics.Clip:
		return math.Float32bits(65504)
	case numerics.NaN:
		return 0x7fc00000
	}
	return 0x7f800000
}

// roundedNoise is a gemmNoise as assembly reads it.
type roundedNoise struct {
	row, time     uint32 // arguments of random.Mix: of the first row, and what the first chunk adds
	strip, column uint32 // the first column by random.Lanes, and the grid's key
	over          uint32 // bits of what replaces a finite sum that is too large
	stochastic    uint32 // 0 or 1
}

func (n *gemmNoise) words() roundedNoise {
	w := roundedNoise{
		row: n.grid.Row + uint32(n.row), time: uint32(n.chunk) * (random.GridStep & math.MaxUint32),
		strip: uint32(n.column / random.Lanes), column: n.grid.Column, over: overflowBits(n.rounding.Overflow),
	}
	if n.rounding.Stochastic {
		w.stochastic = 1
	}
	return w
}

func gemmRoundedRowsAVX512(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	ahead lines, noise *gemmNoise) {
	gemmRoundedAVX512(false, m, kc, a, lda, b, ldb, next, c, ldc, cols, add, ahead, noise.words())
}

func gemmRoundedPanelsAVX512(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	ahead lines, noise *gemmNoise) {
	gemmRoundedAVX512(true, m, kc, a, lda, b, ldb, next, c, ldc, cols, add, ahead, noise.words())
}

func gemmRoundedAVX512(columns bool, m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int,
	add bool, ahead lines, noise roundedNoise) {
	if rest := cols % 32; 0 < rest && rest < cols {
		last := noise
		last.strip += uint32(cols / 32 * 2)
		gemmRoundedAVX512(columns, m, kc, a, lda, b[cols/32*next:], ldb, next, c[cols-rest:], ldc, rest, add, ahead, last)
		cols -= rest
	}
	strips, mask, step := (cols+31)/32, columnMask(min(cols, 32)), lda
	if columns {
		step = 1
	}
	pa, pb, pc := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b), unsafe.Pointer(unsafe.SliceData(c))
	for i := 0; i < m; {
		ai, ci := (*float32)(unsafe.Add(pa, i*step*4)), (*float32)(unsafe.Add(pc, i*ldc*4))
		rows, panels := panelsOf(m-i, 12, 8, 4, 2, 1)
		switch w := &noise.row; {
		case rows == 12 && columns:
			gemmRoundedPanel12AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case rows == 12:
			gemmRoundedRows12AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case rows == 8 && columns:
			gemmRoundedPanel8AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case rows == 8:
			gemmRoundedRows8AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case rows == 4 && columns:
			gemmRoundedPanel4AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case rows == 4:
			gemmRoundedRows4AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case rows == 2 && columns:
			gemmRoundedPanel2AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case rows == 2:
			gemmRoundedRows2AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		case columns:
			gemmRoundedPanel1AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		default:
			gemmRoundedRows1AVX512(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, mask, w, add)
		}
		i += rows * panels
		noise.row += uint32(rows * panels)
	}
}

// panelsOf returns the rows of the next panels and how many there are. Two of 8 rows are faster than 12 and 4.
func panelsOf(left int, sizes ...int) (rows, panels int) {
	for _, rows := range sizes {
		if left >= rows && (rows != 12 || left != 16) {
			return rows, left / rows
		}
	}
	return 1, left
}

func gemmRoundedRowsAVX2(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	ahead lines, noise *gemmNoise) {
	gemmRoundedAVX2(false, m, kc, a, lda, b, ldb, next, c, ldc, cols, add, ahead, noise.words())
}

func gemmRoundedPanelsAVX2(m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int, add bool,
	ahead lines, noise *gemmNoise) {
	gemmRoundedAVX2(true, m, kc, a, lda, b, ldb, next, c, ldc, cols, add, ahead, noise.words())
}

func gemmRoundedAVX2(columns bool, m, kc int, a []float32, lda int, b []float32, ldb, next int, c []float32, ldc, cols int,
	add bool, ahead lines, noise roundedNoise) {
	step := lda
	if columns {
		step = 1
	}
	if rest := cols % 16; rest > 0 { // through a buffer, like throughTile
		last := noise
		last.strip += uint32(cols / 16)
		var tile [6 * 16]float32
		for i := 0; i < m; i += 6 {
			rows := min(6, m-i)
			for r := 0; r < rows && add; r++ {
				copy(tile[r*16:], c[(i+r)*ldc+cols-rest:][:rest])
			}
			gemmRoundedAVX2(columns, rows, kc, a[i*step:], lda, b[cols/16*next:], ldb, 0, tile[:], 16, 16, add, ahead, last)
			for r := range rows {
				copy(c[(i+r)*ldc+cols-rest:][:rest], tile[r*16:])
			}
			last.row += 6
		}
		if cols -= rest; cols == 0 {
			return
		}
	}
	strips := cols / 16
	pa, pb, pc := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b), unsafe.Pointer(unsafe.SliceData(c))
	for i := 0; i < m; {
		ai, ci := (*float32)(unsafe.Add(pa, i*step*4)), (*float32)(unsafe.Add(pc, i*ldc*4))
		rows, panels := panelsOf(m-i, 6, 4, 2, 1)
		switch w := &noise.row; {
		case rows == 6 && columns:
			gemmRoundedPanel6AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		case rows == 6:
			gemmRoundedRows6AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		case rows == 4 && columns:
			gemmRoundedPanel4AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		case rows == 4:
			gemmRoundedRows4AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		case rows == 2 && columns:
			gemmRoundedPanel2AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		case rows == 2:
			gemmRoundedRows2AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		case columns:
			gemmRoundedPanel1AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		default:
			gemmRoundedRows1AVX2(panels, strips, kc, ai, lda, pb, ldb, next, ci, ldc, ahead.at, ahead.apart, w, add)
		}
		i += rows * panels
		noise.row += uint32(rows * panels)
	}
}
