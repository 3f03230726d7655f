package host

import "syscall"

// canInherit says whether children inherit descriptors.
const canInherit = true

// processAttributes lets the kernel kill the plugin with its host, and keeps a terminal's Ctrl-C from it: the host ends it in order.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
