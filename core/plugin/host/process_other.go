//go:build !unix

package host

import "syscall"

// canInherit says whether children inherit descriptors.
const canInherit = false

func processAttributes() *syscall.SysProcAttr { return nil }
