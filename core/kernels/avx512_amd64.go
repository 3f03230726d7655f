//go:build !noasm

package kernels

// avx512 is the level of processors with AVX-512 F, BW, DQ and VL: Intel servers since 2017, AMD since 2022.
var avx512 = table{
	name: "avx512",
	gemm: gemmLevel{mr: 12, nr: 32, width: 48, rows: gemmRowsAVX512, panels: gemmPanelsAVX512,
		roundedRows: gemmRoundedRowsAVX512, roundedPanels: gemmRoundedPanelsAVX512, copyPanels: copyPanelsAVX512,
		transposePanel: transposePanelAVX512},
	peak: func(rounds int) int { peakAVX512(rounds); return rounds * 24 * 16 * 2 },

	add: addAVX512, mul: mulAVX512, axpy: axpyAVX512, scale: scaleAVX512,
	dot: dotAVX512, sumSquares: sumSquaresAVX512, max: maxAVX512, allFinite: allFiniteAVX512, columnSums: columnSumsAVX512,
	exp: expAVX512, tanh: tanhAVX512, tanhGrad: tanhGradAVX512,
	geluErf: geluErfAVX512, geluErfGrad: geluErfGradAVX512, geluTanh: geluTanhAVX512, geluTanhGrad: geluTanhGradAVX512,
	dropout: dropoutAVX512, round: roundAVX512,
	cast:        func(y, x []float32, encode, decode float32, f *Narrow) { castAVX512(y, x, encode, decode, &f.Limit) },
	castColumns: func(y, x, encode, decode []float32, f *Narrow) { castColumnsAVX512(y, x, encode, decode, &f.Limit) },
	castColumns64: func(y, x, encode []float32, decode []float64, f *Narrow) {
		castColumns64AVX512(y, x, encode, decode, &f.Limit)
	},
	castBlocks: func(y, x, encode, decode []float32, width int, f *Narrow) {
		castBlocksAVX512(y, x, encode, decode, width/16, &f.Limit)
	},
	castBlocks64: func(y, x, encode []float32, decode []float64, width int, f *Narrow) {
		castBlocks64AVX512(y, x, encode, decode, width/16, &f.Limit)
	},
	blockMagnitudes: func(m, x []float32, width int) { blockMagnitudesAVX512(m, x, width/16) },
	magnitudes:      magnitudesAVX512,
	layerNorm:       layerNormAVX512, layerNormGrad: layerNormGradAVX512, normalise: normaliseAVX512,
	softmax: func(y, x, mask []float32, scale float32) {
		if mask == nil {
			softmaxAVX512(y, x, scale)
		} else {
			softmaxMaskedAVX512(y, x, mask, scale)
		}
	},
	softmaxGrad: softmaxGradAVX512, expSum: expSumAVX512,
	adamW: func(p, m, v, g []float32, c *Adam) { adamWAVX512(p, m, v, g, &c.LR) },
	lamb:  func(u, p, m, v, g []float32, c *Adam) (pp, uu float64) { return lambAVX512(u, p, m, v, g, &c.LR) },
}
