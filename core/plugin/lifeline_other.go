//go:build !unix

package plugin

import (
	"fmt"
	"os"
	"strconv"
)

// watchHost ends this process when the host is gone. Without inherited descriptors it waits for the host's process.
func watchHost() error {
	text, ok := os.LookupEnv(hostVariable)
	if !ok {
		return nil
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s is %q, want a process id", hostVariable, text)
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

// terminate ends a process: there is no way to ask.
func terminate(p *os.Process) error { return p.Kill() }
