//go:build !noasm

package kernels

// avx2 is the level of processors with AVX2, FMA and F16C: Intel since 2013, AMD since 2015. The sums in float64
// are the twin's.
var avx2 = table{
	name: "avx2",
	gemm: gemmLevel{mr: 6, nr: 16, width: 48, rows: gemmRowsAVX2, panels: gemmPanelsAVX2,
		roundedRows: gemmRoundedRowsAVX2, roundedPanels: gemmRoundedPanelsAVX2, copyPanels: copyPanelsGeneric,
		transposePanel: transposePanelGeneric},
	peak: func(rounds int) int { peakAVX2(rounds); return rounds * 12 * 8 * 2 },

	add: addAVX2, mul: mulAVX2, axpy: axpyAVX2, scale: scaleAVX2,
	dot: dotGeneric, sumSquares: sumSquaresGeneric, max: maxAVX2, allFinite: allFiniteAVX2, columnSums: columnSumsAVX2,
	exp: expAVX2, tanh: tanhAVX2, tanhGrad: tanhGradAVX2,
	geluErf: geluErfAVX2, geluErfGrad: geluErfGradAVX2, geluTanh: geluTanhAVX2, geluTanhGrad: geluTanhGradAVX2,
	dropout: dropoutAVX2, round: roundAVX2,
	cast:        func(y, x []float32, encode, decode float32, f *Narrow) { castAVX2(y, x, encode, decode, &f.Limit) },
	castColumns: func(y, x, encode, decode []float32, f *Narrow) { castColumnsAVX2(y, x, encode, decode, &f.Limit) },
	castColumns64: func(y, x, encode []float32, decode []float64, f *Narrow) {
		castColumns64AVX2(y, x, encode, decode, &f.Limit)
	},
	castBlocks: func(y, x, encode, decode []float32, width int, f *Narrow) {
		castBlocksAVX2(y, x, encode, decode, width/8, &f.Limit)
	},
	castBlocks64: func(y, x, encode []float32, decode []float64, width int, f *Narrow) {
		castBlocks64AVX2(y, x, encode, decode, width/8, &f.Limit)
	},
	blockMagnitudes: func(m, x []float32, width int) { blockMagnitudesAVX2(m, x, width/8) },
	magnitudes:      magnitudesAVX2,
	layerNorm:       layerNormAVX2, layerNormGrad: layerNormGradAVX2, normalise: normaliseAVX2,
	softmax: func(y, x, mask []float32, scale float32) {
		if mask == nil {
			softmaxAVX2(y, x, scale)
		} else {
			softmaxMaskedAVX2(y, x, mask, scale)
		}
	},
	softmaxGrad: softmaxGradAVX2, expSum: expSumAVX2,
	adamW: func(p, m, v, g []float32, c *Adam) { adamWAVX2(p, m, v, g, &c.LR) },
	lamb: func(u, p, m, v, g []float32, c *Adam) (pp, uu float64) {
		lambAVX2(u, p, m, v, g, &c.LR)
		return sumSquaresGeneric(p), sumSquaresGeneric(u)
	},
}
