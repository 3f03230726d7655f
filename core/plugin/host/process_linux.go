package host

import "syscall"

// canInherit says whether children inherit descriptors.
const canInherit = true

// processAttributes makes the kernel kill the plugin with its host, and shields it from a terminal's Ctrl-C: the
// host ends it in order.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
