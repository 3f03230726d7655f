//go:build unix && !linux

package host

import "syscall"

// canInherit says whether children inherit descriptors.
const canInherit = true

// processAttributes keeps a terminal's Ctrl-C from the plugin: the host ends it in order.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
