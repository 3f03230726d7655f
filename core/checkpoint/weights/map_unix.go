//go:build unix && !portable

package weights

import (
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mapped is a file in the address space of the process.
type mapped struct{ data []byte }

// mapFile maps a file and closes it; the mapping holds it by itself.
func mapFile(f *os.File, size int64) (mapping, error) {
	if size > math.MaxInt {
		return nil, errors.New("file is larger than the address space")
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		// An empty file can't be mapped, and some file systems can't map: read instead.
		return readingFile{reading{f}, f}, nil
	}
	return &mapped{data}, f.Close()
}

func (m *mapped) slice(offset, n int64) ([]byte, error) {
	if m.data == nil {
		return nil, os.ErrClosed
	}
	return m.data[offset : offset+n : offset+n], nil
}

func (m *mapped) ReadAt(b []byte, offset int64) (int, error) {
	if m.data == nil {
		return 0, os.ErrClosed
	}
	if offset < 0 {
		return 0, errors.New("negative offset")
	}
	if offset >= int64(len(m.data)) {
		return 0, io.EOF
	}
	n := copy(b, m.data[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m *mapped) Close() error {
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}
