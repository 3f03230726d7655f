package bench

import (
	"sync"
	"testing"

	"harness.invalid/core/format"
	"harness.invalid/core/kernels"
)

// Formats returns benchmarks of quantisation in the built-in formats, relative to a copy of the same matrix on the same
// threads. Tiles follow the rows, as for Y = X·Wᵀ; for formats with tiles of one row a second benchmark has them follow
// the columns. The largest magnitude of a whole tensor, where a format wants it, is part of the time.
func Formats() []Benchmark {
	const rows, columns = 16 << 10, 1 << 10 // 64 MiB each for source and result: no cache holds them
	var list []Benchmark
	memory := sync.OnceValues(func() (x, y []float32) { return values(rows * columns), make([]float32, rows*columns) })
	for _, name := range format.Names() {
		f, err := format.Load(name)
		if err != nil {
			panic(err) // built in
		}
		directions := []bool{false}
		if f.Scale != nil && f.Scale.Rows == 1 {
			directions = append(directions, true)
		}
		for _, along := range directions {
			full := "Quantize/" + name
			if along {
				full += "/columns"
			}
			list = append(list, Benchmark{full, func(b *testing.B) (Figure, error) {
				x, y := memory()
				m := format.Matrix{Dst: y, Src: x, Rows: rows, Columns: columns, AlongRows: along}
				var s samples
				s.pair(b, func() { quantize(f.Quantizer(), &m) }, func() {
					inChunks(len(m.Src), func(i0, i1 int) { copy(m.Dst[i0:i1], m.Src[i0:i1]) })
				})
				out := s.figure()
				out.GBs, out.PeakGBs = out.against(&s, 8*rows*columns, 8*rows*columns)
				return out, nil
			}})
		}
	}
	return list
}

// quantize rounds the whole matrix, on all threads.
func quantize(q *format.Quantizer, m *format.Matrix) {
	tensor := float32(0)
	if q.NeedsLargest() {
		tops := make([]float32, m.Rows)
		kernels.Parallel(m.Rows, func(r0, r1 int) {
			kernels.BlockMagnitudes(tops[r0:r1], m.Src[r0*m.Columns:r1*m.Columns], m.Columns)
		})
		tensor = format.Largest(tops)
	}
	kernels.Parallel(q.Bands(m), func(b0, b1 int) { q.Quantize(m, b0, b1, tensor) })
}
