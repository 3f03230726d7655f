package weights

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"harness.invalid/core/bounded"
	"harness.invalid/core/tensor"
)

// Part is one file with the data of tensors, mapped into memory where the system can do so. It is an io.ReaderAt.
//
// A file that shrinks while it is mapped ends the process with SIGBUS when the lost part is read: write new files
// beside the old ones and rename them, as all writers of harness do.
type Part struct {
	name string
	size int64
	data mapping
}

// mapping gives access to a file's bytes.
type mapping interface {
	io.ReaderAt
	// slice returns n bytes at an offset, which the caller has checked. They are valid until Close and must not be
	// changed.
	slice(offset, n int64) ([]byte, error)
	Close() error
}

// mostBytes is the size of a file that is mapped, far above that of any model.
const mostBytes = 64 * bounded.TiB

// OpenPart maps a file.
func OpenPart(path string) (*Part, error) {
	f, err := bounded.Open(path, mostBytes)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	data, err := mapFile(f, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &Part{name: path, size: info.Size(), data: data}, nil
}

// NewPart is a part of a size from any source; name stands for it in errors. Closing it leaves the source open.
func NewPart(r io.ReaderAt, size int64, name string) *Part {
	return &Part{name: name, size: size, data: reading{r}}
}

// Name is the path of the file.
func (p *Part) Name() string { return p.name }

// Size is the length of the file in bytes.
func (p *Part) Size() int64 { return p.size }

// ReadAt reads from the file.
func (p *Part) ReadAt(b []byte, offset int64) (int, error) { return p.data.ReadAt(b, offset) }

// Bytes returns n bytes at an offset, without a copy where the file is mapped. They are valid until Close and must
// not be changed.
func (p *Part) Bytes(offset, n int64) ([]byte, error) {
	if offset < 0 || n < 0 || n > p.size-offset {
		return nil, p.Errorf(offset, "%d bytes end behind the file's %d", n, p.size)
	}
	b, err := p.data.slice(offset, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return b, nil
}

// Close unmaps the file.
func (p *Part) Close() error { return p.data.Close() }

// Errorf is an error about the contents of the file at an offset. It wraps ErrFormat.
func (p *Part) Errorf(offset int64, format string, args ...any) error {
	return fmt.Errorf("%s: byte %d: %w: %w", p.name, offset, fmt.Errorf(format, args...), ErrFormat)
}

// Tensor is a tensor whose data begin at an offset of the part, row-major.
func (p *Part) Tensor(name string, d tensor.DType, shape tensor.Shape, offset int64) (Tensor, error) {
	t := Tensor{Name: name, DType: d, Shape: shape, part: p, offset: offset}
	if bits[d] == 0 {
		return t, p.Errorf(offset, "tensor %s: dtype %s is not known", Quote(name), Clip(string(d)))
	}
	n, err := ByteLen(d, shape)
	if err != nil {
		return t, p.Errorf(offset, "tensor %s: %w", Quote(name), err)
	}
	if offset < 0 || n > p.size-offset {
		return t, p.Errorf(offset, "tensor %s of %d bytes ends behind the file's %d", Quote(name), n, p.size)
	}
	return t, nil
}

// Strided is a tensor whose elements lie apart: strides say by how many elements, axis by axis, and storage is how
// many there are behind offset. A tensor has at most as many elements as its storage, so no file can ask for more
// than its own length.
func (p *Part) Strided(name string, d tensor.DType, shape tensor.Shape, strides []int64, offset, storage int64) (Tensor, error) {
	whole, err := p.Tensor(name, d, tensor.Shape{int(storage)}, offset)
	if err != nil {
		return whole, err
	}
	t := Tensor{Name: name, DType: d, Shape: shape, part: p, offset: offset}
	if bits[d]%8 != 0 || len(strides) != len(shape) {
		return t, p.Errorf(offset, "tensor %s of type %s and shape %v has the strides %v", Quote(name), d, shape, strides)
	}
	n, err := ByteLen(d, shape)
	if err != nil {
		return t, p.Errorf(offset, "tensor %s: %w", Quote(name), err)
	}
	if n > whole.ByteLen() {
		return t, p.Errorf(offset, "tensor %s of shape %v has more elements than its storage, which holds %d", Quote(name), shape, storage)
	}
	last := int64(0)
	for i, extent := range shape {
		if n == 0 {
			break
		}
		if strides[i] < 0 || extent > 1 && strides[i] > (storage-1-last)/int64(extent-1) {
			return t, p.Errorf(offset, "tensor %s of shape %v and strides %v leaves its storage of %d elements", Quote(name), shape, strides,
				storage)
		}
		last += strides[i] * int64(extent-1)
	}
	if !rowMajor(shape, strides) {
		t.strides = strides
	}
	return t, nil
}

func rowMajor(shape tensor.Shape, strides []int64) bool {
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 && strides[i] != n {
			return false
		}
		n *= int64(shape[i])
	}
	return true
}

// Sum is a checksum of a stretch of a part. It is verified before the first value of a tensor that has it is used,
// so opening a file stays free of reading it.
type Sum struct {
	part   *Part
	offset int64
	n      int64
	table  *crc32.Table
	want   uint32
	once   sync.Once
	err    error
}

// Sum is the CRC-32 that n bytes at an offset must have.
func (p *Part) Sum(offset, n int64, table *crc32.Table, want uint32) *Sum {
	return &Sum{part: p, offset: offset, n: n, table: table, want: want}
}

func (s *Sum) verify() error {
	if s == nil {
		return nil
	}
	s.once.Do(func() {
		got := uint32(0)
		for i := int64(0); i < s.n; i += chunk {
			b, err := s.part.Bytes(s.offset+i, min(chunk, s.n-i))
			if err != nil {
				s.err = err
				return
			}
			got = crc32.Update(got, s.table, b)
		}
		if got != s.want {
			s.err = s.part.Errorf(s.offset, "%d bytes have the CRC-32 %08x, want %08x", s.n, got, s.want)
		}
	})
	return s.err
}

// reading reads instead of mapping.
type reading struct{ io.ReaderAt }

func (r reading) slice(offset, n int64) ([]byte, error) {
	buf := make([]byte, n)
	if read, err := r.ReadAt(buf, offset); int64(read) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %d bytes at byte %d: %w", n, offset, err)
	}
	return buf, nil
}

func (reading) Close() error { return nil }

// readingFile is a reading that owns its file.
type readingFile struct {
	reading
	file *os.File
}

// Close may be called again, as that of a mapped file.
func (r readingFile) Close() error {
	if err := r.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
