package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"

	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
)

// Bytes returns a tensor's data as it lies in the file, little-endian. It must not be changed and is valid until Close.
func (f *File) Bytes(name string) ([]byte, error) {
	t, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	data, err := f.data.Slice(t.offset, t.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %s: %w", f.name, quote(name), err)
	}
	return data, nil
}

// Float32s returns the values of a tensor of type F64, F32, F16 or BF16. Doubles are rounded to the nearest float32, to infinity beyond its range.
func (f *File) Float32s(name string) ([]float32, error) { return allOf[float32](f, name, floatDecoder) }

// Float64s returns the values of a tensor of type F64, F32, F16 or BF16.
func (f *File) Float64s(name string) ([]float64, error) { return allOf[float64](f, name, floatDecoder) }

// Int64s returns the values of a tensor of a whole-number type: I64, I32, I16, I8, U32, U16, U8 or BOOL.
func (f *File) Int64s(name string) ([]int64, error) { return allOf[int64](f, name, intDecoder) }

// Int32s returns the values of a tensor of a whole-number type that fits: I32, I16, I8, U16, U8 or BOOL, and I64 and U32 when every value is in range.
func (f *File) Int32s(name string) ([]int32, error) {
	wide, err := f.Int64s(name)
	if err != nil {
		return nil, err
	}
	values := make([]int32, len(wide))
	for i, v := range wide {
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, fmt.Errorf("%s: tensor %s: element %d is %d, want an int32", f.name, quote(name), i, v)
		}
		values[i] = int32(v)
	}
	return values, nil
}

// ReadFloat32s converts as Float32s does, into dst, which must have the tensor's number of elements: no copy is made on the way from a mapped file.
func (f *File) ReadFloat32s(name string, dst []float32) error {
	return readInto(f, name, dst, floatDecoder[float32])
}

func (f *File) lookup(name string) (Tensor, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return t, fmt.Errorf("%s: no tensor is named %s%s", f.name, quote(name), spelling.Hint(name, f.Names()))
	}
	return t, nil
}

// decoder converts little-endian elements; src holds len(dst) of them.
type decoder[T any] func(dst []T, src []byte)

func allOf[T any](f *File, name string, decoderOf func(tensor.DType) decoder[T]) ([]T, error) {
	t, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	if decoderOf(t.DType) == nil {
		return nil, f.wrongType(t)
	}
	dst := make([]T, t.Shape.Len())
	return dst, readInto(f, name, dst, decoderOf)
}

func readInto[T any](f *File, name string, dst []T, decoderOf func(tensor.DType) decoder[T]) error {
	t, err := f.lookup(name)
	if err != nil {
		return err
	}
	decode := decoderOf(t.DType)
	if decode == nil {
		return f.wrongType(t)
	}
	if len(dst) != t.Shape.Len() {
		return fmt.Errorf("%s: tensor %s has %d elements, want %d", f.name, quote(name), t.Shape.Len(), len(dst))
	}
	size := int64(bits[t.DType] / 8)
	step := f.data.Sliceable() / size
	for i := int64(0); i < int64(len(dst)); i += step {
		n := min(step, int64(len(dst))-i)
		src, err := f.data.Slice(t.offset+i*size, n*size)
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", f.name, quote(name), err)
		}
		decode(dst[i:i+n], src)
	}
	return nil
}

func (f *File) wrongType(t Tensor) error {
	return fmt.Errorf("%s: tensor %s is of type %s, which does not hold numbers of the wanted kind", f.name, quote(t.Name), t.DType)
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
