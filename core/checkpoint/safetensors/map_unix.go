//go:build unix

package safetensors

import (
	"errors"
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
		// Some file systems can't map: read instead.
		return fileMapping{readerMapping{f}, f}, nil
	}
	return &mapped{data}, f.Close()
}

func (m *mapped) Sliceable() int64 { return int64(len(m.data)) }

func (m *mapped) Slice(offset, n int64) ([]byte, error) {
	if m.data == nil {
		return nil, os.ErrClosed
	}
	return m.data[offset : offset+n : offset+n], nil
}

func (m *mapped) Close() error {
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}
