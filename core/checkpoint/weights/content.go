package weights

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/x448/float16"

	"harness.invalid/core/tensor"
)

// Content is a tensor to be written: Of makes one of values, Tensor.Content one of a tensor in another file.
type Content struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape

	values any // []float32, []float64, []int64, []int32, []uint8 or Tensor
	len    int // elements of values
	zeros  int // elements behind them
	told   func(n int) error
}

// Observed returns c with a function that is called for every n bytes written and can stop the writing.
func (c Content) Observed(told func(n int) error) Content {
	c.told = told
	return c
}

// Of makes a tensor of values, stored in their own type, bytes as U8. The values are read only when they are
// written.
func Of[T float32 | float64 | int64 | int32 | uint8](name string, shape tensor.Shape, values []T) Content {
	c := Content{Name: name, Shape: slices.Clone(shape), values: values, len: len(values)}
	switch c.values.(type) {
	case []float32:
		c.DType = tensor.F32
	case []float64:
		c.DType = tensor.F64
	case []int64:
		c.DType = tensor.I64
	case []int32:
		c.DType = tensor.I32
	case []uint8:
		c.DType = tensor.U8
	}
	return c
}

// Content is t to be written to another file, in its own type. The file of t must stay open until then.
func (t Tensor) Content() Content {
	return Content{Name: t.Name, DType: t.DType, Shape: t.Shape, values: t, len: t.Shape.Len()}
}

// As returns c stored in another type: floating point values as F32, F16 or BF16, rounded to the nearest, ties to
// even (doubles to F32 first), and bytes of 0 and 1 as BOOL.
func (c Content) As(d tensor.DType) Content {
	c.DType = d
	return c
}

// Padded returns c with zeros behind it, so that its first axis has n entries.
func (c Content) Padded(n int) Content {
	row := c.Shape[1:].Len()
	c.zeros = (n - c.Shape[0]) * row
	c.Shape = append(tensor.Shape{n}, c.Shape[1:]...)
	return c
}

// Transposed returns the matrix c, which comes from a file, with its axes exchanged.
func (c Content) Transposed() Content {
	t, ok := c.values.(Tensor)
	if !ok || c.zeros > 0 {
		panic("weights: only a tensor of a file is transposed")
	}
	c.values = t.Transposed()
	c.Shape = tensor.Shape{c.Shape[1], c.Shape[0]}
	return c
}

// Check rejects contents that no file could hold, and returns the length of the data in bytes.
func (c Content) Check() (int64, error) {
	if !utf8.ValidString(c.Name) {
		return 0, fmt.Errorf("tensor %q: name is not UTF-8", c.Name)
	}
	if c.encoder() == nil {
		from := fmt.Sprintf("%T", c.values)
		if t, ok := c.values.(Tensor); ok {
			from = string(t.DType)
		}
		return 0, fmt.Errorf("tensor %s: %s can't be stored as %q", c.Name, from, c.DType)
	}
	n, err := ByteLen(c.DType, c.Shape)
	if err != nil {
		return 0, fmt.Errorf("tensor %s: %w", c.Name, err)
	}
	if c.len+c.zeros != c.Shape.Len() {
		return 0, fmt.Errorf("tensor %s has %d values, want %d for shape %v", c.Name, c.len+c.zeros, c.Shape.Len(), c.Shape)
	}
	return n, nil
}

// overflow reports the first finite value that F16 would make infinite. No other conversion overflows.
func (c Content) overflow(values []float32) error {
	if c.DType != tensor.F16 {
		return nil
	}
	for _, v := range values {
		if (v >= halfLimit || v <= -halfLimit) && !math.IsInf(float64(v), 0) {
			return fmt.Errorf("tensor %s holds %g, which FP16 can't: its largest value is 65504; BF16 goes further", c.Name, v)
		}
	}
	return nil
}

// halfLimit is the smallest number that rounds to infinity: half a unit above F16's largest.
const halfLimit = 65520

// WriteTo writes the data, row-major and little-endian.
func (c Content) WriteTo(w io.Writer) (written int64, err error) {
	put := func(b []byte) error {
		n, err := w.Write(b)
		written += int64(n)
		if err == nil && c.told != nil {
			err = c.told(n)
		}
		return err
	}
	size := bits[c.DType] / 8
	if t, ok := c.values.(Tensor); ok {
		encode := encodeFloat32s(c.DType)
		decode := floatDecoder[float32](t.DType)
		var values [chunk]float32
		var buf []byte
		err := t.chunks(func(src []byte, _, n int) error {
			if t.DType == c.DType {
				return put(src)
			}
			decode(values[:n], src)
			buf = slices.Grow(buf[:0], n*size)[:n*size]
			encode(buf, values[:n])
			if err := c.overflow(values[:n]); err != nil {
				return err
			}
			return put(buf)
		})
		if err != nil {
			return written, err
		}
	} else {
		encode, buf := c.encoder(), make([]byte, min(chunk, c.len)*size)
		for i := 0; i < c.len; i += chunk {
			n := min(chunk, c.len-i)
			encode(buf[:n*size], i, i+n)
			if values, ok := c.values.([]float32); ok {
				if err := c.overflow(values[i : i+n]); err != nil {
					return written, err
				}
			}
			if err := put(buf[:n*size]); err != nil {
				return written, err
			}
		}
	}
	for zeros := make([]byte, min(chunk, c.zeros*size)); written < int64(c.len+c.zeros)*int64(size); {
		if err := put(zeros[:min(int64(len(zeros)), int64(c.len+c.zeros)*int64(size)-written)]); err != nil {
			return written, err
		}
	}
	return written, nil
}

// encoder returns a function that writes elements i0 to i1 into dst, or nil if the values cannot be stored in the
// wanted type.
func (c Content) encoder() func(dst []byte, i0, i1 int) {
	switch values := c.values.(type) {
	case Tensor:
		if c.DType == values.DType && bits[c.DType]%8 == 0 || encodeFloat32s(c.DType) != nil && floatDecoder[float32](values.DType) != nil {
			return func([]byte, int, int) {}
		}
	case []float32:
		if encode := encodeFloat32s(c.DType); encode != nil {
			return func(dst []byte, i0, i1 int) { encode(dst, values[i0:i1]) }
		}
	case []float64:
		if c.DType == tensor.F64 {
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(v))
				}
			}
		}
	case []int64:
		if c.DType == tensor.I64 {
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint64(dst[8*i:], uint64(v))
				}
			}
		}
	case []int32:
		if c.DType == tensor.I32 {
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint32(dst[4*i:], uint32(v))
				}
			}
		}
	case []uint8:
		if c.DType == tensor.U8 || c.DType == tensor.Bool {
			return func(dst []byte, i0, i1 int) { copy(dst, values[i0:i1]) }
		}
	}
	return nil
}

// encodeFloat32s returns a function that stores float32 values as a type, or nil for other types.
func encodeFloat32s(d tensor.DType) func(dst []byte, values []float32) {
	switch d {
	case tensor.F32:
		return func(dst []byte, values []float32) {
			for i, v := range values {
				binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
			}
		}
	case tensor.F16:
		return func(dst []byte, values []float32) {
			for i, v := range values {
				binary.LittleEndian.PutUint16(dst[2*i:], float16.Fromfloat32(v).Bits())
			}
		}
	case tensor.BF16:
		return func(dst []byte, values []float32) {
			for i, v := range values {
				binary.LittleEndian.PutUint16(dst[2*i:], bfloat16(v))
			}
		}
	}
	return nil
}

// bfloat16 rounds to the nearest, ties to even; a NaN stays one.
func bfloat16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 1<<6
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
