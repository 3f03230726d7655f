//go:build !unix

package plugin

import "syscall"

// canInherit says whether children inherit descriptors.
const canInherit = false

func processAttributes() *syscall.SysProcAttr { return nil }
