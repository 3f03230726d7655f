//go:build unix && !portable

package bounded

import "syscall"

// nonblock opens a FIFO that took the place of a file without waiting for its other end, and a terminal without making it
// the process's own.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
