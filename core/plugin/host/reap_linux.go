//go:build !portable

package host

import (
	"errors"

	"golang.org/x/sys/unix"
)

// reap waits until the process has ended and ends its group. The process is reaped last: until then its number, which
// is the group's, can't be given to another one.
func (c *child) reap() error {
	for errors.Is(unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	killGroup(c.cmd.Process)
	c.lives = false
	return c.cmd.Wait()
}
