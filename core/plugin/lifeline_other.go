//go:build !unix

package plugin

import (
	"fmt"
	"os"
	"strconv"

	"harness.invalid/core/plugin/internal/wire"
)

// watchHost ends this process when the host is gone. As descriptors are not inherited, it waits for the host's process.
func watchHost() error {
	text, ok := os.LookupEnv(wire.HostVariable)
	if !ok {
		return nil
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s is %q, want a process id", wire.HostVariable, text)
	}
	host, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("host process %d: %w", pid, err)
	}
	go func() {
		_, _ = host.Wait()
		os.Exit(1)
	}()
	return nil
}

func closeOnExec(int) {}
