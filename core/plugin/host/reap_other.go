//go:build !linux || portable

package host

// reap waits until the process has ended and ends its group.
func (c *child) reap() error {
	err := c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	killGroup(c.cmd.Process)
	c.lives = false
	return err
}
