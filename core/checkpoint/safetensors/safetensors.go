// Package safetensors reads and writes Hugging Face's safetensors files: named tensors of known types and shapes, and no code.
//
// A file is an 8-byte little-endian length N, N bytes of JSON that say name, type, shape and place of every tensor, and the tensors' bytes,
// row-major and little-endian, one after the other without gaps. Open looks at the first two parts only and maps the third into memory, so a
// file of gigabytes opens at once and costs no copy.
//
// Everything that a file says is checked before it is used; what is wrong is named together with the file and the byte. Source of the rules:
// github.com/huggingface/safetensors, README.md and src/tensor.rs.
package safetensors

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"harness.invalid/core/tensor"
)

// ErrFormat is what every error about a file's contents wraps.
var ErrFormat = errors.New("not a sound safetensors file")

// MaxHeader is the greatest length of the JSON header in bytes, the same as in the reference implementation.
const MaxHeader = 100_000_000

// dtypes are the types of the format in the order of the reference implementation, by which files are sorted.
var dtypes = []tensor.DType{
	"BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
	"I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64",
}

// bits are the bits of one element of each type.
var bits = map[tensor.DType]int{
	"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}

// Tensor describes a tensor of a file.
type Tensor struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape // extents may be 0, the empty shape is a scalar
	Bytes int64        // length of its data

	offset int64 // of its data, from the start of the file
}

// File is an open file. Its methods may be called at the same time, but none after Close.
type File struct {
	name     string
	data     mapping
	tensors  []Tensor // in the order of their data
	index    map[string]int
	metadata map[string]string
}

// mapping gives access to a file's bytes.
type mapping interface {
	// Slice returns n bytes at an offset, at most sliceable at a time. They are valid until Close and must not be changed.
	Slice(offset, n int64) ([]byte, error)
	// Sliceable is the greatest n of Slice that costs no more than a buffer.
	Sliceable() int64
	Close() error
}

// Open reads the header of a file and maps its data into memory where the system can do so. A file that shrinks while it is mapped ends the
// process with SIGBUS when the lost part is read: write new files beside the old ones and rename them, as Write does.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file, want a safetensors file", path), f.Close())
	}
	tensors, metadata, err := readHeader(f, info.Size(), path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m, err := mapFile(f, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return newFile(path, m, tensors, metadata), nil
}

// NewReader reads a file of a size from any source; name stands for it in errors. Closing the File leaves the source open.
func NewReader(r io.ReaderAt, size int64, name string) (*File, error) {
	tensors, metadata, err := readHeader(r, size, name)
	if err != nil {
		return nil, err
	}
	return newFile(name, readerMapping{r}, tensors, metadata), nil
}

func newFile(name string, m mapping, tensors []Tensor, metadata map[string]string) *File {
	f := &File{name: name, data: m, tensors: tensors, metadata: metadata, index: make(map[string]int, len(tensors))}
	for i, t := range tensors {
		f.index[t.Name] = i
	}
	return f
}

// Name is the path that the file was opened with.
func (f *File) Name() string { return f.name }

// Names are the names of all tensors, in the order of their data.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i, t := range f.tensors {
		names[i] = t.Name
	}
	return names
}

// Tensors describes all tensors, in the order of their data.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor describes one tensor.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Metadata is the file's free text by keys, empty when it has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Close unmaps the file.
func (f *File) Close() error { return f.data.Close() }

// readerMapping reads instead of mapping.
type readerMapping struct{ r io.ReaderAt }

func (m readerMapping) Sliceable() int64 { return 1 << 20 }

func (m readerMapping) Slice(offset, n int64) ([]byte, error) {
	buf := make([]byte, n)
	if _, err := m.r.ReadAt(buf, offset); n > 0 && err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %d bytes at byte %d: %w", n, offset, err)
	}
	return buf, nil
}

func (m readerMapping) Close() error { return nil }

// fileMapping is a readerMapping that owns its file.
type fileMapping struct {
	readerMapping
	file *os.File
}

func (m fileMapping) Close() error { return m.file.Close() }
