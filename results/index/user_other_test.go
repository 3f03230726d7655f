//go:build !unix || portable

package index

import "syscall"

func serverUser(string) (*syscall.SysProcAttr, bool) { return nil, true }
