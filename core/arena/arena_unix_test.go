//go:build unix && !portable

package arena

import (
	"os"

	"golang.org/x/sys/unix"
)

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.Dup(int(f.Fd()))
	return os.NewFile(uintptr(fd), f.Name()), err
}
