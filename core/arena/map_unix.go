//go:build unix && !portable

package arena

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, offset int64, n int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), offset, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return b, os.NewSyscallError("mmap", err)
}

func unmap(b []byte) error { return os.NewSyscallError("munmap", unix.Munmap(b)) }
