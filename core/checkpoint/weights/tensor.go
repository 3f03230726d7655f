package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/x448/float16"

	"harness.invalid/core/tensor"
)

// Tensor is a view of a tensor in a file. It is valid as long as the file is open.
type Tensor struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape // extents may be 0, the empty shape is a scalar

	part    *Part
	offset  int64   // of the first element, in bytes from the start of the part
	strides []int64 // in elements, one an axis; nil: row-major
	sum     *Sum
}

// Part is the file that holds the data.
func (t Tensor) Part() *Part { return t.part }

// Offset is where the first element lies in its part.
func (t Tensor) Offset() int64 { return t.offset }

// ByteLen is the length of the data in bytes.
func (t Tensor) ByteLen() int64 {
	n, err := ByteLen(t.DType, t.Shape)
	if err != nil {
		panic("weights: a tensor was not checked")
	}
	return n
}

// Checked is t with a checksum.
func (t Tensor) Checked(s *Sum) Tensor {
	t.sum = s
	return t
}

// Named is t under another name.
func (t Tensor) Named(name string) Tensor {
	t.Name = name
	return t
}

// Transposed is the view of a matrix [m, n] as [n, m].
func (t Tensor) Transposed() Tensor {
	if len(t.Shape) != 2 {
		panic("weights: only a matrix is transposed")
	}
	strides := t.strides
	if strides == nil {
		strides = []int64{int64(t.Shape[1]), 1}
	}
	t.Shape = tensor.Shape{t.Shape[1], t.Shape[0]}
	t.strides = []int64{strides[1], strides[0]}
	return t
}

// Rows is the view of the entries i0 to i1 of the first axis.
func (t Tensor) Rows(i0, i1 int) Tensor {
	row := int64(t.Shape[1:].Len())
	if t.strides != nil {
		row = t.strides[0]
	}
	t.offset += int64(i0) * row * int64(bits[t.DType]) / 8
	t.Shape = append(tensor.Shape{i1 - i0}, t.Shape[1:]...)
	return t
}

// SameData reports whether two views show the same bytes of the same file.
func (t Tensor) SameData(u Tensor) bool {
	return t.part == u.part && t.offset == u.offset && t.DType == u.DType && slices.Equal(t.Shape, u.Shape) &&
		slices.Equal(t.strides, u.strides)
}

// chunk is how many elements are converted, and bytes are summed, at a time: what stays in a cache.
const chunk = 1 << 16

// elements returns what gives the bytes of the elements i0 to i1 in row-major order. buf is for those that have to
// be collected.
func (t Tensor) elements() (func(i0, i1 int64, buf []byte) ([]byte, error), error) {
	size := int64(bits[t.DType]) / 8
	if t.strides == nil {
		return func(i0, i1 int64, _ []byte) ([]byte, error) { return t.part.Bytes(t.offset+i0*size, (i1-i0)*size) }, nil
	}
	n := int64(0) // elements from the first to the last one, if there are any
	if t.Shape.Len() > 0 {
		n = 1
		for axis, extent := range t.Shape {
			n += t.strides[axis] * int64(extent-1)
		}
	}
	storage, err := t.part.Bytes(t.offset, n*size)
	if err != nil {
		return nil, err
	}
	return func(i0, i1 int64, buf []byte) ([]byte, error) {
		if i0 == i1 {
			return nil, nil
		}
		at, index, rest := int64(0), make([]int, len(t.Shape)), i0
		for axis := len(t.Shape) - 1; axis >= 0; axis-- {
			index[axis] = int(rest % int64(t.Shape[axis]))
			rest /= int64(t.Shape[axis])
			at += int64(index[axis]) * t.strides[axis]
		}
		out := buf[:0]
		for range i1 - i0 {
			out = append(out, storage[at*size:at*size+size]...)
			for axis := len(t.Shape) - 1; axis >= 0; axis-- {
				index[axis]++
				at += t.strides[axis]
				if index[axis] < t.Shape[axis] {
					break
				}
				at -= int64(t.Shape[axis]) * t.strides[axis]
				index[axis] = 0
			}
		}
		return out, nil
	}, nil
}

// chunks goes through the elements in row-major order. src holds the bytes of n of them.
func (t Tensor) chunks(use func(src []byte, i, n int) error) error {
	if err := t.sum.verify(); err != nil {
		return t.failed(err)
	}
	elements, err := t.elements()
	if err != nil {
		return t.failed(err)
	}
	var buf []byte
	if t.strides != nil {
		buf = make([]byte, min(chunk, t.Shape.Len())*bits[t.DType]/8)
	}
	for i, total := 0, t.Shape.Len(); i < total; i += chunk {
		n := min(chunk, total-i)
		src, err := elements(int64(i), int64(i+n), buf)
		if err != nil {
			return t.failed(err)
		}
		if err := use(src, i, n); err != nil {
			return err
		}
	}
	return nil
}

// failed is an error of the part, which says where.
func (t Tensor) failed(err error) error { return fmt.Errorf("tensor %s: %w", Quote(t.Name), err) }

func (t Tensor) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: tensor %s "+format, append([]any{t.part.name, Quote(t.Name)}, args...)...)
}

// Bytes returns the data, row-major and little-endian, without a copy where it lies so in a mapped file. It must
// not be changed.
func (t Tensor) Bytes() ([]byte, error) {
	if err := t.sum.verify(); err != nil {
		return nil, t.failed(err)
	}
	n := t.ByteLen()
	if t.strides == nil {
		b, err := t.part.Bytes(t.offset, n)
		if err != nil {
			return nil, t.failed(err)
		}
		return b, nil
	}
	elements, err := t.elements()
	if err != nil {
		return nil, t.failed(err)
	}
	return elements(0, int64(t.Shape.Len()), make([]byte, n))
}

// Float32s returns the values of a tensor of type F64, F32, F16 or BF16. Doubles are rounded to the nearest
// float32, to infinity beyond its range.
func (t Tensor) Float32s() ([]float32, error) { return all[float32](t, floatDecoder) }

// Float64s returns the values of a tensor of type F64, F32, F16 or BF16.
func (t Tensor) Float64s() ([]float64, error) { return all[float64](t, floatDecoder) }

// Int64s returns the values of a tensor of a whole-number type: I64, I32, I16, I8, U32, U16, U8 or BOOL.
func (t Tensor) Int64s() ([]int64, error) { return all[int64](t, intDecoder) }

// Int32s returns the values of a tensor of a whole-number type that fits: I32, I16, I8, U16, U8 or BOOL, and I64
// and U32 when every value is in range.
func (t Tensor) Int32s() ([]int32, error) {
	wide, err := t.Int64s()
	if err != nil {
		return nil, err
	}
	values := make([]int32, len(wide))
	for i, v := range wide {
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, t.errorf("has the element %d at %d, want an int32", v, i)
		}
		values[i] = int32(v)
	}
	return values, nil
}

// ReadFloat32s converts as Float32s does, into dst, which must have the tensor's number of elements: no copy is
// made on the way from a mapped file.
func (t Tensor) ReadFloat32s(dst []float32) error { return read(t, dst, floatDecoder[float32]) }

// decoder converts little-endian elements; src holds len(dst) of them.
type decoder[T any] func(dst []T, src []byte)

func all[T any](t Tensor, decoderOf func(tensor.DType) decoder[T]) ([]T, error) {
	if decoderOf(t.DType) == nil {
		return nil, t.wrongType()
	}
	dst := make([]T, t.Shape.Len())
	return dst, read(t, dst, decoderOf)
}

func read[T any](t Tensor, dst []T, decoderOf func(tensor.DType) decoder[T]) error {
	decode := decoderOf(t.DType)
	if decode == nil {
		return t.wrongType()
	}
	if len(dst) != t.Shape.Len() {
		return t.errorf("has %d elements, want %d", t.Shape.Len(), len(dst))
	}
	return t.chunks(func(src []byte, i, n int) error {
		decode(dst[i:i+n], src)
		return nil
	})
}

func (t Tensor) wrongType() error {
	return t.errorf("is of type %s, which does not hold numbers of the wanted kind", t.DType)
}

func floatDecoder[T float32 | float64](d tensor.DType) decoder[T] {
	switch d {
	case tensor.F64:
		return func(dst []T, src []byte) {
			for i := range dst {
				dst[i] = T(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
			}
		}
	case tensor.F32:
		return func(dst []T, src []byte) {
			for i := range dst {
				dst[i] = T(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
			}
		}
	case tensor.F16:
		return func(dst []T, src []byte) {
			for i := range dst {
				dst[i] = T(float16.Frombits(binary.LittleEndian.Uint16(src[2*i:])).Float32())
			}
		}
	case tensor.BF16:
		return func(dst []T, src []byte) {
			for i := range dst {
				dst[i] = T(math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16))
			}
		}
	}
	return nil
}

func intDecoder(d tensor.DType) decoder[int64] {
	each := func(size int, value func(src []byte) int64) decoder[int64] {
		return func(dst []int64, src []byte) {
			for i := range dst {
				dst[i] = value(src[i*size:])
			}
		}
	}
	switch d {
	case tensor.I64:
		return each(8, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
	case tensor.I32:
		return each(4, func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) })
	case "U32":
		return each(4, func(b []byte) int64 { return int64(binary.LittleEndian.Uint32(b)) })
	case "I16":
		return each(2, func(b []byte) int64 { return int64(int16(binary.LittleEndian.Uint16(b))) })
	case "U16":
		return each(2, func(b []byte) int64 { return int64(binary.LittleEndian.Uint16(b)) })
	case "I8":
		return each(1, func(b []byte) int64 { return int64(int8(b[0])) })
	case tensor.U8, tensor.Bool:
		return each(1, func(b []byte) int64 { return int64(b[0]) })
	}
	return nil
}
