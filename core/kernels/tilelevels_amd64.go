//go:build !noasm

package kernels

// avx512bf16 is avx512 with products of BF16 on vectors of pairs: AMD since 2022. Products of parts would not be
// faster there than in FP32.
var avx512bf16 = withTiles("avx512bf16", tileLevel{
	multiply: [2]multiplyTiles{multiplyPairsBF16},
	peak:     func(rounds int) int { peakPairsBF16(rounds); return rounds * 16 * 2 * 32 },
})

// amx is avx512 with the products of narrow formats on AMX tiles: Intel servers since 2023.
var amx = withTiles("amx", tileLevel{
	multiply: [2]multiplyTiles{
		func(rows, cols, depth int, a, b, c *float32, ldc int, add bool) {
			multiplyTiles1AMX(&tileConfig, rows, cols, depth, a, b, c, ldc, add)
		},
		func(rows, cols, depth int, a, b, c *float32, ldc int, add bool) {
			multiplyTiles2AMX(&tileConfig, rows, cols, depth, a, b, c, ldc, add)
		},
	},
	peak: func(rounds int) int { peakTilesAMX(&tileConfig, rounds); return rounds * 4 * 2 * tileSize * tileDepth },
})

func withTiles(name string, unit tileLevel) table {
	unit.pair = [2]pairTiles{pairTiles1AVX512, pairTiles2AVX512}
	unit.transpose = func(dst, src *float32) { transpose16AVX512(dst, tileGroup, src, tileGroup, 1) }
	t := avx512
	t.name, t.gemm.tiles = name, &unit
	return t
}

// tileConfig says that all eight tiles have 16 rows of 64 bytes. Source: Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 1, table 18-1 (palette 1): byte 0 is the palette, 16 and 17 the bytes of a row of tile
// 0 and so on, 48 the rows of tile 0 and so on.
var tileConfig = func() (c [64]byte) {
	c[0] = 1
	for t := range 8 {
		c[16+2*t], c[48+t] = 64, tileGroup
	}
	return c
}()
