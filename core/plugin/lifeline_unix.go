//go:build unix

package plugin

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"harness.invalid/core/plugin/internal/wire"
)

// watchHost ends this process when the host is gone: the kernel then closes the other end of the lifeline, even
// after kill -9.
func watchHost() error {
	text, ok := os.LookupEnv(wire.LifelineVariable)
	if !ok {
		return nil
	}
	f, err := inheritedFile(text, wire.LifelineVariable)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, f)
		fmt.Fprintln(os.Stderr, "the host is gone")
		os.Exit(1)
	}()
	return nil
}

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
