package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"harness.invalid/core/bounded"
	"harness.invalid/core/tensor"
)

// part holds the values 0, 1, 2 ... as F32.
func part(n int) *Part {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	return NewPart(bytes.NewReader(b), int64(len(b)), "p")
}

// TestViews: any view shows what indexing by its strides gives, whole and in pieces.
func TestViews(t *testing.T) {
	p := part(400)
	rapid.Check(t, func(t *rapid.T) {
		shape := tensor.Shape(rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "shape"))
		strides := make([]int64, len(shape))
		for i := range strides {
			strides[i] = int64(rapid.IntRange(0, 20).Draw(t, "stride"))
		}
		offset := int64(rapid.IntRange(0, 20).Draw(t, "offset"))
		v, err := p.Strided("v", tensor.F32, shape, strides, 4*offset, 400-offset)
		if err != nil {
			if shape.Len() <= 380 && errors.Is(err, ErrFormat) && !strings.Contains(err.Error(), "leaves its storage") {
				t.Fatal(err)
			}
			return
		}
		var want []float32
		var walk func(axis int, at int64)
		walk = func(axis int, at int64) {
			if axis == len(shape) {
				want = append(want, float32(at))
				return
			}
			for i := range shape[axis] {
				walk(axis+1, at+int64(i)*strides[axis])
			}
		}
		walk(0, offset)
		if got, err := v.Float32s(); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v by %v from %d is %v (%v), want %v", shape, strides, offset, got, err, want)
		}
		if b, err := v.Bytes(); err != nil || len(b) != 4*len(want) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		i := rapid.IntRange(0, len(want)).Draw(t, "i")
		j := rapid.IntRange(i, len(want)).Draw(t, "j")
		elements, err := v.elements()
		if err != nil {
			t.Fatal(err)
		}
		b, err := elements(int64(i), int64(j), make([]byte, 4*(j-i)))
		if err != nil || len(b) != 4*(j-i) {
			t.Fatalf("elements %d to %d: %d bytes, %v", i, j, len(b), err)
		}
		for k := range j - i {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:])); got != want[i+k] {
				t.Fatalf("element %d is %g, want %g", i+k, got, want[i+k])
			}
		}
	})
}

// TestTransposedRows: cuts and transpositions of each other.
func TestTransposedRows(t *testing.T) {
	v, err := part(12).Tensor("v", tensor.F32, tensor.Shape{3, 4}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		view  Tensor
		shape tensor.Shape
		want  []float32
	}{
		"rows":               {v.Rows(1, 3), tensor.Shape{2, 4}, []float32{4, 5, 6, 7, 8, 9, 10, 11}},
		"transposed":         {v.Transposed(), tensor.Shape{4, 3}, []float32{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
		"twice":              {v.Transposed().Transposed(), tensor.Shape{3, 4}, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"rows of transposed": {v.Transposed().Rows(1, 2), tensor.Shape{1, 3}, []float32{1, 5, 9}},
		"transposed rows":    {v.Rows(1, 2).Transposed(), tensor.Shape{4, 1}, []float32{4, 5, 6, 7}},
	} {
		got, err := test.view.Float32s()
		if err != nil || !slices.Equal(got, test.want) || !slices.Equal(test.view.Shape, test.shape) {
			t.Errorf("%s is %v %v, %v, want %v %v", name, test.view.Shape, got, err, test.shape, test.want)
		}
		var out bytes.Buffer
		if n, err := test.view.Content().WriteTo(&out); err != nil || n != int64(4*len(test.want)) {
			t.Errorf("%s: %d bytes are written, %v", name, n, err)
		}
	}
	if !v.SameData(v.Rows(0, 3)) || v.SameData(v.Rows(0, 2)) || v.SameData(v.Transposed()) {
		t.Error("SameData is wrong")
	}
}

// TestBounds: what does not lie in its part is refused.
func TestBounds(t *testing.T) {
	p := part(4)
	for want, err := range map[string]error{
		"ends behind the file's 16":          second(p.Tensor("a", tensor.F32, tensor.Shape{4}, 4)),
		"dtype F128 is not known":            second(p.Tensor("a", "F128", nil, 0)),
		"too many elements":                  second(p.Tensor("a", tensor.F32, tensor.Shape{math.MaxInt, 2}, 0)),
		"of 4 bytes ends":                    second(p.Tensor("a", tensor.F32, nil, math.MaxInt64)),
		"byte -1":                            second(p.Tensor("a", tensor.F32, nil, -1)),
		"extents of at least 0":              second(p.Tensor("a", tensor.F32, tensor.Shape{-1}, 0)),
		"leaves its storage of 4":            second(p.Strided("a", tensor.F32, tensor.Shape{2}, []int64{4}, 0, 4)),
		"strides [9223372036854775807] leav": second(p.Strided("a", tensor.F32, tensor.Shape{3}, []int64{math.MaxInt64}, 0, 4)),
		"strides [-1]":                       second(p.Strided("a", tensor.F32, tensor.Shape{2}, []int64{-1}, 0, 4)),
		"more elements than its storage":     second(p.Strided("a", tensor.F32, tensor.Shape{5}, []int64{0}, 0, 4)),
		"has the strides []":                 second(p.Strided("a", tensor.F32, tensor.Shape{5}, nil, 0, 4)),
	} {
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	a, _ := p.Tensor("a", tensor.F32, nil, 0)
	b, _ := p.Tensor("a", tensor.F32, nil, 4)
	if _, err := New("f", "test", []Tensor{a, b}, nil, p); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), `byte 4: tensor "a" is at byte 0 of p already`) {
		t.Errorf("error is %v", err)
	}
}

func second(_ Tensor, err error) error { return err }

// TestPart: a mapped file and one that is read show the same, and both end in errors, not in faults.
func TestPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o666); err != nil {
		t.Fatal(err)
	}
	mapped, err := OpenPart(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Part{mapped, NewPart(strings.NewReader("0123456789"), 10, "f")} {
		if b, err := p.Bytes(3, 4); err != nil || string(b) != "3456" {
			t.Errorf("bytes are %q, %v", b, err)
		}
		for _, bad := range [][2]int64{{-1, 2}, {3, -1}, {8, 3}, {11, 0}, {math.MaxInt64, 1}, {1, math.MaxInt64}} {
			if _, err := p.Bytes(bad[0], bad[1]); !errors.Is(err, ErrFormat) {
				t.Errorf("%d bytes at %d: error is %v", bad[1], bad[0], err)
			}
		}
		b := make([]byte, 4)
		if n, err := p.ReadAt(b, 8); n != 2 || err != io.EOF {
			t.Errorf("%d bytes, %v, want 2 and EOF", n, err)
		}
		if _, err := p.ReadAt(b, 10); err != io.EOF {
			t.Errorf("error is %v, want EOF", err)
		}
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	}
	if _, err := mapped.Bytes(0, 1); err == nil {
		t.Error("a closed file can be read")
	}
	// A source that is shorter than was said.
	if _, err := NewPart(strings.NewReader("01"), 10, "f").Bytes(0, 5); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error is %v", err)
	}
	if _, err := OpenPart(t.TempDir()); err == nil || !errors.Is(err, bounded.ErrNotRegular) || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("error is %v", err)
	}
}

// TestSum: a sum is checked before values are used, once, and wherever they are used.
func TestSum(t *testing.T) {
	data := bytes.Repeat([]byte("abcd"), chunk)
	p := NewPart(bytes.NewReader(data), int64(len(data)), "p")
	v, err := p.Tensor("v", tensor.U8, tensor.Shape{len(data) - 4}, 4)
	if err != nil {
		t.Fatal(err)
	}
	want := crc32.ChecksumIEEE(data[4:])
	good, bad := v.Checked(p.Sum(4, int64(len(data)-4), crc32.IEEETable, want)), v.Checked(p.Sum(4, int64(len(data)-4),
		crc32.IEEETable, want+1))
	if _, err := good.Bytes(); err != nil {
		t.Error(err)
	}
	for name, use := range map[string]func(Tensor) error{
		"Bytes":      func(v Tensor) error { _, err := v.Bytes(); return err },
		"Int64s":     func(v Tensor) error { _, err := v.Int64s(); return err },
		"Statistics": func(v Tensor) error { _, _, err := v.Statistics(); return err },
		"WriteTo":    func(v Tensor) error { _, err := v.Content().WriteTo(io.Discard); return err },
		"Rows":       func(v Tensor) error { _, err := v.Rows(0, 1).Bytes(); return err },
	} {
		if err := use(good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := use(bad); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "p: byte 4: ") {
			t.Errorf("%s: error is %v, want that the sum differs", name, err)
		}
	}
}

// TestStatistics against the plain formulas, on more than one piece, and with values that are not finite.
func TestStatistics(t *testing.T) {
	n := 2*chunk + 17
	var b []byte
	var sum, squares float64
	for i := range n {
		x := 1000 + float64(i%1000)/1000 // a mean that is large against the deviation
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		sum += x
	}
	for i := range n {
		d := 1000 + float64(i%1000)/1000 - sum/float64(n)
		squares += d * d
	}
	statistics := func(d tensor.DType, n int, b []byte) Statistics {
		t.Helper()
		v, err := NewPart(bytes.NewReader(b), int64(len(b)), "p").Tensor("v", d, tensor.Shape{n}, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, ok, err := v.Statistics()
		if err != nil || !ok {
			t.Fatalf("%v, %v", ok, err)
		}
		return s
	}
	close := cmpopts.EquateApprox(1e-9, 0)
	want := Statistics{Min: 1000, Max: 1000.999, Mean: sum / float64(n), Std: math.Sqrt(squares / float64(n))}
	if diff := cmp.Diff(want, statistics(tensor.F64, n, b), close); diff != "" {
		t.Error(diff)
	}
	b = nil
	for _, x := range []float64{math.NaN(), -2, math.Inf(1), 0, math.Inf(-1), 4, math.Copysign(0, -1), 2} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	want = Statistics{Min: -2, Max: 4, Mean: 0.8, Std: math.Sqrt(4.16), Zeros: 2, NaNs: 1, Infs: 2} // of -2, 0, 4, 0, 2
	if diff := cmp.Diff(want, statistics(tensor.F32, 8, b), close); diff != "" {
		t.Error(diff)
	}
	nan := math.NaN()
	if diff := cmp.Diff(Statistics{Min: nan, Max: nan, Mean: nan, Std: nan, NaNs: 1}, statistics(tensor.F32, 1, b),
		cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Statistics{Min: -1, Max: 3, Mean: 1, Std: 2}, statistics("I8", 2, []byte{255, 3}), close); diff != "" {
		t.Error(diff)
	}
	for d, n := range map[tensor.DType]int{"F8_E4M3": 1, tensor.F32: 0} {
		v, err := part(1).Tensor("v", d, tensor.Shape{n}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok, err := v.Statistics(); ok || err != nil {
			t.Errorf("%d of %s have the statistics %v, %v", n, d, s, err)
		}
	}
}

// TestContent: tensors of files in other types, filled up, and told of.
func TestContent(t *testing.T) {
	v, err := part(6).Tensor("v", tensor.F32, tensor.Shape{3, 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	told := 0
	c := v.Rows(1, 3).Content().As(tensor.F16).Padded(3).Observed(func(n int) error { told += n; return nil })
	if n, err := c.Check(); err != nil || n != 12 {
		t.Errorf("%d bytes, %v, want 12", n, err)
	}
	if n, err := c.WriteTo(&out); err != nil || n != 12 || told != 12 {
		t.Errorf("%d bytes, %d told, %v, want 12", n, told, err)
	}
	if want := []byte{0, 0x40, 0, 0x42, 0, 0x44, 0, 0x45, 0, 0, 0, 0}; !bytes.Equal(out.Bytes(), want) {
		t.Errorf("2, 3, 4, 5, 0, 0 are % x, want % x", out.Bytes(), want)
	}
	stop := errors.New("stop")
	if _, err := c.Observed(func(int) error { return stop }).WriteTo(io.Discard); !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}
	for want, c := range map[string]Content{
		`F32 can't be stored as "I64"`: v.Content().As(tensor.I64),
		"name is not UTF-8":            v.Named("\xff").Content(),
		"holds 65520, which FP16":      Of("a", tensor.Shape{1}, []float32{65520}).As(tensor.F16),
	} {
		_, err := c.Check()
		if err == nil {
			_, err = c.WriteTo(io.Discard)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if _, err := Of("a", tensor.Shape{2}, []float32{65519, float32(math.Inf(1))}).As(tensor.F16).WriteTo(io.Discard); err != nil {
		t.Errorf("values that FP16 holds: %v", err)
	}
}

// TestBFloat16: the upper half of every float32 is itself, and what lies between two goes to the nearer.
func TestBFloat16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float32Range(-1e38, 1e38).Draw(t, "v")
		got := math.Float32frombits(uint32(bfloat16(v)) << 16)
		below := math.Float32frombits(math.Float32bits(v) &^ 0xffff)
		above := math.Float32frombits(math.Float32bits(v)&^0xffff + 0x10000)
		if d := math.Abs(float64(got) - float64(v)); got != below && got != above || d > math.Abs(float64(below)-float64(v)) ||
			d > math.Abs(float64(above)-float64(v)) {
			t.Fatalf("%g is rounded to %g, its neighbours are %g and %g", v, got, below, above)
		}
	})
	if got := bfloat16(math.Float32frombits(0x7f800001)); got&0x7f80 != 0x7f80 || got&0x7f == 0 {
		t.Errorf("a NaN became %#x", got)
	}
}

func BenchmarkStatistics(b *testing.B) {
	v, err := part(1<<20).Tensor("v", tensor.F32, tensor.Shape{1 << 20}, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(4 << 20)
	for b.Loop() {
		if _, _, err := v.Statistics(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteTo(b *testing.B) {
	v, err := part(1<<20).Tensor("v", tensor.F32, tensor.Shape{1 << 10, 1 << 10}, 0)
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]Content{
		"F32": v.Content(), "BF16": v.Content().As(tensor.BF16), "transposed": v.Transposed().Content(),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 << 20)
			for b.Loop() {
				if _, err := c.WriteTo(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
