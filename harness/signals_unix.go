//go:build unix && !portable

package main

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopSignals ask the program to stop: Ctrl-C, kill, a terminal or a connection that is gone, and what batch systems send
// before the end of a job's time. SIGPIPE says that nobody reads what the program prints.
var stopSignals = []os.Signal{
	os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGXCPU, syscall.SIGPIPE,
}

// timeIsUp reports whether a batch system asked the program to stop before its time is up.
func timeIsUp(ctx context.Context) bool {
	var s stoppedBy
	return errors.As(context.Cause(ctx), &s) && s.Signal == syscall.SIGUSR1
}

// outputClosed reports whether standard output or standard error is a pipe or a socket whose other end is gone.
// os.Stdout and os.Stderr do not say: a plugin's server puts other files there.
func outputClosed() bool {
	files := []unix.PollFd{{Fd: int32(syscall.Stdout)}, {Fd: int32(syscall.Stderr)}}
	if _, err := unix.Poll(files, 0); err != nil {
		return false
	}
	for _, f := range files {
		if f.Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			return true
		}
	}
	return false
}
