//go:build unix && !linux

package host

import "syscall"

// canInherit says whether children inherit descriptors.
const canInherit = true

// processAttributes shields the plugin from a terminal's Ctrl-C: the host ends it in order.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
