package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/x448/float16"

	"harness.invalid/core/durable"
	"harness.invalid/core/tensor"
)

// Content is a tensor to be written: Of makes one.
type Content struct {
	name   string
	dtype  tensor.DType
	shape  tensor.Shape
	values any // []float32, []float64, []int64, []int32 or []uint8
	len    int
}

// Of makes a tensor of values that is stored in their own type, bytes as U8. The values are read when they are written.
func Of[T float32 | float64 | int64 | int32 | uint8](name string, shape tensor.Shape, values []T) Content {
	c := Content{name: name, shape: slices.Clone(shape), values: values, len: len(values)}
	switch c.values.(type) {
	case []float32:
		c.dtype = tensor.F32
	case []float64:
		c.dtype = tensor.F64
	case []int64:
		c.dtype = tensor.I64
	case []int32:
		c.dtype = tensor.I32
	case []uint8:
		c.dtype = tensor.U8
	}
	return c
}

// As returns c stored in another type: float32 values as F16 or BF16, rounded to the nearest, ties to even, and bytes of 0 and 1 as BOOL.
func (c Content) As(d tensor.DType) Content {
	c.dtype = d
	return c
}

// Write puts a file at path, in full or not at all: under a temporary name, flushed to the disk, then renamed. Tensors are ordered as the
// reference implementation orders them, by type from the widest to the narrowest and then by name, so equal contents give equal bytes.
// metadata may be nil; Hugging Face's loaders want {"format": "pt"}.
func Write(path string, contents []Content, metadata map[string]string) error {
	// A mistake in the contents is found before the disk is touched.
	header, sorted, err := buildHeader(contents, metadata)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.WriteFile(path, func(w io.Writer) error { return writeParts(w, header, sorted) })
}

// WriteTo writes what Write would put into the file.
func WriteTo(w io.Writer, contents []Content, metadata map[string]string) error {
	header, sorted, err := buildHeader(contents, metadata)
	if err != nil {
		return err
	}
	return writeParts(w, header, sorted)
}

func writeParts(w io.Writer, header []byte, contents []Content) error {
	var length [prefix]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(header)))
	if _, err := w.Write(append(length[:], header...)); err != nil {
		return err
	}
	const elements = 1 << 16
	buf := make([]byte, 8*elements)
	for _, c := range contents {
		encode, size := c.encoding(), bits[c.dtype]/8
		for i := 0; i < c.len; i += elements {
			n := min(elements, c.len-i)
			encode(buf[:n*size], i, i+n)
			if _, err := w.Write(buf[:n*size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// buildHeader checks the contents, sorts them and writes the JSON that goes before them.
func buildHeader(contents []Content, metadata map[string]string) ([]byte, []Content, error) {
	sorted := slices.Clone(contents)
	slices.SortStableFunc(sorted, func(a, b Content) int {
		return cmp.Or(cmp.Compare(slices.Index(dtypes, b.dtype), slices.Index(dtypes, a.dtype)), cmp.Compare(a.name, b.name))
	})
	var out bytes.Buffer
	out.WriteByte('{')
	if metadata != nil {
		out.WriteString(`"__metadata__":{`)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(jsonString(key))
			out.WriteByte(':')
			out.Write(jsonString(metadata[key]))
		}
		out.WriteByte('}')
	}
	seen := make(map[string]bool, len(sorted))
	offset := int64(0)
	for _, c := range sorted {
		n, err := c.check(seen)
		if err != nil {
			return nil, nil, err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(jsonString(c.name))
		shape, err := json.Marshal(append([]int{}, c.shape...))
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&out, `:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, c.dtype, shape, offset, offset+n)
		offset += n
	}
	out.WriteByte('}')
	for out.Len()%8 != 0 {
		out.WriteByte(' ')
	}
	if out.Len() > MaxHeader {
		return nil, nil, fmt.Errorf("header of %d bytes, want at most %d", out.Len(), MaxHeader)
	}
	return out.Bytes(), sorted, nil
}

// check reports contents that no file could hold, and returns the bytes of its data.
func (c Content) check(seen map[string]bool) (int64, error) {
	switch {
	case !utf8.ValidString(c.name):
		return 0, fmt.Errorf("tensor %q: name is not UTF-8", c.name)
	case c.name == "__metadata__":
		return 0, fmt.Errorf("tensor %s: the name is reserved", c.name)
	case seen[c.name]:
		return 0, fmt.Errorf("two tensors are named %s", c.name)
	case c.encoding() == nil:
		return 0, fmt.Errorf("tensor %s: %T can't be stored as %q", c.name, c.values, c.dtype)
	}
	seen[c.name] = true
	for _, d := range c.shape {
		if d < 0 {
			return 0, fmt.Errorf("tensor %s has shape %v, want extents of at least 0", c.name, c.shape)
		}
	}
	n, err := byteLen(c.dtype, c.shape)
	if err != nil {
		return 0, fmt.Errorf("tensor %s: %w", c.name, err)
	}
	if int64(c.len) != n/int64(bits[c.dtype]/8) {
		return 0, fmt.Errorf("tensor %s has %d values, want %d for shape %v", c.name, c.len, c.shape.Len(), c.shape)
	}
	return n, nil
}

// encoding returns what writes elements i0 to i1 into dst, nil when the values can't be stored in the wanted type.
func (c Content) encoding() func(dst []byte, i0, i1 int) {
	switch values := c.values.(type) {
	case []float32:
		switch c.dtype {
		case tensor.F32:
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
				}
			}
		case tensor.F16:
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint16(dst[2*i:], float16.Fromfloat32(v).Bits())
				}
			}
		case tensor.BF16:
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint16(dst[2*i:], bfloat16(v))
				}
			}
		}
	case []float64:
		if c.dtype == tensor.F64 {
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(v))
				}
			}
		}
	case []int64:
		if c.dtype == tensor.I64 {
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint64(dst[8*i:], uint64(v))
				}
			}
		}
	case []int32:
		if c.dtype == tensor.I32 {
			return func(dst []byte, i0, i1 int) {
				for i, v := range values[i0:i1] {
					binary.LittleEndian.PutUint32(dst[4*i:], uint32(v))
				}
			}
		}
	case []uint8:
		if c.dtype == tensor.U8 || c.dtype == tensor.Bool {
			return func(dst []byte, i0, i1 int) { copy(dst, values[i0:i1]) }
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

// jsonString writes a string without the escapes for HTML that json.Marshal adds.
func jsonString(s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("safetensors: a string can't be written as JSON") // no string can't
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
