// Package weights represents named tensors in files, independent of the file format.
//
// A format's package (safetensors, pytorch, tensorflow) reads what a file says about its tensors and hands over
// where the bytes of each lie, as a Tensor of a Part. From then on all formats are alike: a Tensor is a view of
// bytes that are mapped into memory, which costs nothing until its values are read. The other way round, a Content
// is a tensor to be written, which every format's writer takes.
//
// Views can be transposed and cut, so a file that keeps [in, out] or three matrices in one is read in place, too.
package weights

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
)

// ErrFormat is wrapped by every error about the contents of a file.
var ErrFormat = errors.New("not a sound file of tensors")

// bits are the bits of one element of each type: those of safetensors, in its order.
var bits = map[tensor.DType]int{
	"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
	"F8_E5M2FNUZ": 8,
	"I16":         16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}

// Bits are the bits of one element of a type, 0 for a type that is not known.
func Bits(d tensor.DType) int { return bits[d] }

// ByteLen is the length of the data of a tensor of a known type, checked for overflow.
func ByteLen(d tensor.DType, shape tensor.Shape) (int64, error) {
	n := int64(1)
	for _, extent := range shape {
		if extent < 0 {
			return 0, fmt.Errorf("shape %v, want extents of at least 0", shape)
		}
		if extent != 0 && n > math.MaxInt64/int64(extent) {
			return 0, fmt.Errorf("shape %v has too many elements", shape)
		}
		n *= int64(extent)
	}
	if n > math.MaxInt64/int64(bits[d]) {
		return 0, fmt.Errorf("shape %v has too many elements", shape)
	}
	n *= int64(bits[d])
	if n%8 != 0 {
		return 0, fmt.Errorf("%s %v does not fill whole bytes", d, shape)
	}
	return n / 8, nil
}

// File is an open set of tensors: one file, or the shards of a model. Its methods may be called at the same time,
// but none after Close.
type File struct {
	name     string
	format   string
	tensors  []Tensor
	index    map[string]int
	metadata map[string]string
	parts    []*Part
}

// New is for readers of formats. Two tensors of the same name are an error; else the parts are the File's own and
// closed with it.
//
// name is the path that was opened, format what it is: "safetensors", "pytorch zip" ...
func New(name, format string, tensors []Tensor, metadata map[string]string, parts ...*Part) (*File, error) {
	f := &File{name: name, format: format, tensors: tensors, metadata: metadata, parts: parts, index: make(map[string]int, len(tensors))}
	for i, t := range tensors {
		if first, ok := f.index[t.Name]; ok {
			return nil, t.part.Errorf(t.offset, "tensor %s is at byte %d of %s already", Quote(t.Name), tensors[first].offset,
				tensors[first].part.name)
		}
		f.index[t.Name] = i
	}
	return f, nil
}

// Join is New for tensors of files that are open already, which it takes over.
func Join(name, format string, tensors []Tensor, metadata map[string]string, files ...*File) (*File, error) {
	var parts []*Part
	for _, f := range files {
		parts = append(parts, f.parts...)
	}
	return New(name, format, tensors, metadata, parts...)
}

// Name is the path that the file was opened with.
func (f *File) Name() string { return f.name }

// Format is what kind of file it is, in words.
func (f *File) Format() string { return f.format }

// Names are the names of all tensors, in the order of Tensors.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i, t := range f.tensors {
		names[i] = t.Name
	}
	return names
}

// Tensors are all tensors, in the order of the file.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor finds one tensor.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Metadata is what the file says beside its tensors, as text by keys.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Close unmaps the files.
func (f *File) Close() error {
	var errs []error
	for _, p := range f.parts {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// lookup is Tensor with an error that names what is near.
func (f *File) lookup(name string) (Tensor, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return t, fmt.Errorf("%s: no tensor is named %s%s", f.name, Quote(name), spelling.Hint(name, f.Names()))
	}
	return t, nil
}

// Bytes returns a tensor's data, row-major and little-endian. It must not be changed and is valid until Close.
func (f *File) Bytes(name string) ([]byte, error) { return named(f, name, Tensor.Bytes) }

// Float32s is Tensor.Float32s of a named tensor.
func (f *File) Float32s(name string) ([]float32, error) { return named(f, name, Tensor.Float32s) }

// Float64s is Tensor.Float64s of a named tensor.
func (f *File) Float64s(name string) ([]float64, error) { return named(f, name, Tensor.Float64s) }

// Int64s is Tensor.Int64s of a named tensor.
func (f *File) Int64s(name string) ([]int64, error) { return named(f, name, Tensor.Int64s) }

// Int32s is Tensor.Int32s of a named tensor.
func (f *File) Int32s(name string) ([]int32, error) { return named(f, name, Tensor.Int32s) }

// ReadFloat32s is Tensor.ReadFloat32s of a named tensor.
func (f *File) ReadFloat32s(name string, dst []float32) error {
	t, err := f.lookup(name)
	if err != nil {
		return err
	}
	return t.ReadFloat32s(dst)
}

func named[T any](f *File, name string, read func(Tensor) ([]T, error)) ([]T, error) {
	t, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	return read(t)
}

// Quote quotes a name from a file, and keeps a hostile one from flooding an error.
func Quote(name string) string { return strconv.Quote(Clip(name)) }

// Clip cuts a text from a file down to what an error can show.
func Clip(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
