package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"harness.invalid/core/numerics"
)

// onTileLevels runs a test on every level that has tiles.
func onTileLevels(t *testing.T, test func(t *testing.T, level *tileLevel)) {
	none := true
	onEachLevel(t, func(t *testing.T) {
		if active.gemm.tiles != nil {
			none = false
			test(t, active.gemm.tiles)
		}
	})
	if none {
		t.Skip("this build or processor does not multiply pairs")
	}
}

func upper(x float32) float32 { return math.Float32frombits(word(x) &^ 0xFFFF) }

// lane is a pair of BF16 numbers.
func lane(x, y float32) float32 { return math.Float32frombits(word(y)&^0xFFFF | word(x)>>16) }

func unpair(l float32) (x, y float32) { return math.Float32frombits(word(l) << 16), upper(l) }

// pairTwin is pair of so many parts on slices.
func pairTwin(dst, src []float32, ld, apart, tiles, next, step, parts int) {
	for t := range tiles {
		for r := range tileGroup {
			for j := range tileGroup {
				x, y := src[t*next+r*ld+j], src[t*next+r*ld+apart+j]
				for p := range parts {
					dst[t*step+p*tileSize+r*tileGroup+j] = lane(x, y)
					x, y = x-upper(x), y-upper(y)
				}
			}
		}
	}
}

func TestPairTiles(t *testing.T) { onTileLevels(t, testPairTiles) }

func testPairTiles(t *testing.T, level *tileLevel) {
	for parts := 1; parts <= 2; parts++ {
		for _, s := range []struct{ ld, apart, tiles, next int }{{32, 16, 1, 32}, {100, 16, 3, 32}, {50, 16 * 50, 3, 16}} {
			src := normals(s.ld*32+s.tiles*s.next+16, 1)
			step := 2*tileSize + 16
			want, _ := guarded(t, s.tiles*step, 0)
			got, intact := guarded(t, s.tiles*step, 0)
			pairTwin(want, src, s.ld, s.apart, s.tiles, s.next, step, parts)
			level.pair[parts-1](&got[0], &src[0], s.ld, s.apart, s.tiles, s.next, step)
			intact()
			for i := range want {
				if word(got[i]) != word(want[i]) {
					t.Fatalf("%d parts, %+v: lane %d is %x, want %x", parts, s, i, word(got[i]), word(want[i]))
				}
			}
		}
	}
}

// multiplyTwin is multiply on slices. Source of the order and the rounding: Intel, Architecture Instruction Set
// Extensions Programming Reference, TDPBF16PS and VDPBF16PS.
func multiplyTwin(parts, rows, cols, depth int, a, b, c []float32, ldc int, add bool) {
	flush := func(x float32) float32 {
		if math.Abs(float64(x)) < 0x1p-126 {
			return float32(math.Copysign(0, float64(x)))
		}
		return x
	}
	fma := func(x, y, sum float32) float32 {
		product := float64(flush(x)) * float64(flush(y)) // exact
		if math.Abs(product) < 0x1p-126 {
			return flush(float32(product + float64(sum)))
		}
		return flush(float32(product) + sum)
	}
	for i := range rows * tileBlock {
		for j := range cols * tileBlock {
			at := &c[i*ldc+j]
			if !add {
				*at = 0
			}
			for s := range depth {
				tile := func(x []float32, group, part int) []float32 {
					return x[((group/tileGroup*depth+s)*parts+part)*tileSize:]
				}
				for _, p := range [][2]int{{0, 0}, {0, 1}, {1, 1}, {1, 0}} {
					if p[0] >= parts || p[1] >= parts {
						continue
					}
					ta, tb := tile(a, i, p[0])[i%tileGroup*tileGroup:], tile(b, j, p[1])[j%tileGroup:]
					if Level() == "avx512bf16" {
						for k := range tileGroup {
							ax, ay := unpair(ta[k])
							bx, by := unpair(tb[k*tileGroup])
							*at = fma(ax, bx, fma(ay, by, *at))
						}
						continue
					}
					var first, last float32
					for k := range tileGroup {
						ax, ay := unpair(ta[k])
						bx, by := unpair(tb[k*tileGroup])
						first, last = fma(ax, bx, first), fma(ay, by, last)
					}
					*at = flush(*at + flush(first+last))
				}
			}
		}
	}
}

func TestMultiplyTiles(t *testing.T) { onTileLevels(t, testMultiplyTiles) }

func testMultiplyTiles(t *testing.T, level *tileLevel) {
	random := rand.New(rand.NewPCG(1, 2))
	for parts := 1; parts <= 2 && level.multiply[parts-1] != nil; parts++ {
		for _, s := range []struct{ rows, cols, depth int }{{1, 1, 1}, {2, 1, 3}, {1, 3, 2}} {
			for _, scale := range []float64{1, 0x1p-60} { // with 0x1p-60, products are near or below what counts as zero
				lanes := func(groups int) []float32 {
					x := make([]float32, groups*2*s.depth*parts*tileSize)
					for i := range x {
						x[i] = lane(float32(random.NormFloat64()*scale), float32(random.NormFloat64()*scale))
					}
					return x
				}
				a, b := lanes(s.rows), lanes(s.cols)
				ldc := s.cols*tileBlock + 5
				for _, add := range []bool{false, true} {
					got, intact := guarded(t, s.rows*tileBlock*ldc, 0)
					copy(got, normals(len(got), 3))
					want := clone(got)
					multiplyTwin(parts, s.rows, s.cols, s.depth, a, b, want, ldc, add)
					level.multiply[parts-1](s.rows, s.cols, s.depth, &a[0], &b[0], &got[0], ldc, add)
					intact()
					for i := range want {
						if word(got[i]) != word(want[i]) {
							t.Fatalf("%d parts, %+v, scale %g, add %v: element %d is %v, want %v", parts, s, scale, add, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}

// TestParts: every number of a narrow format is the sum of its parts.
func TestParts(t *testing.T) {
	for _, f := range []numerics.Format{numerics.BF16, numerics.FP16, numerics.TF32} {
		for _, x := range normals(10000, 4) {
			rest := f.Round(x)
			for range parts(f) {
				rest -= upper(rest)
			}
			if rest != 0 {
				t.Fatalf("%v: %v is not the sum of %d parts, %v is left", f, f.Round(x), parts(f), rest)
			}
		}
	}
}

func TestCheckInputs(t *testing.T) {
	CheckInputs = true
	defer func() {
		CheckInputs = false
		if recover() == nil {
			t.Error("no panic over an input that is not in its format")
		}
	}()
	g := newGemm(3, 4, 5, false, false, 0)
	g.Inputs = numerics.FP16
	g.RoundA = numerics.FP16
	g.Run()
}
