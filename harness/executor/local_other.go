//go:build !linux || portable

package executor

import "syscall"

func allowedCores() []int { return coresByNumber() }

// useCores does nothing: GOMAXPROCS alone limits a task here.
func useCores([]int) error { return nil }

func endsWithParent() *syscall.SysProcAttr { return nil }

// availableMemory is not known here.
func availableMemory() int64 { return 0 }
