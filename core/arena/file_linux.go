//go:build !portable

package arena

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// create opens a memfd that can grow but never shrink. F_SEAL_SEAL keeps a plugin from adding seals that would
// hinder the host.
func create() (*os.File, error) {
	fd, err := unix.MemfdCreate("harness-arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "harness-arena")
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl F_ADD_SEALS", err), f.Close())
	}
	return f, nil
}

// checkAttached rejects a file that could shrink under a mapping.
func checkAttached(f *os.File) error {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("file is not a memfd: %w", os.NewSyscallError("fcntl F_GET_SEALS", err))
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return errors.New("file is not sealed against shrinking")
	}
	return nil
}

// release returns the pages of a range to the system. The file keeps its size.
func release(f *os.File, offset, n int64) error {
	return os.NewSyscallError("fallocate", unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, n))
}
