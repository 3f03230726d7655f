//go:build !noasm && !linux

package kernels

// tilesPermitted is false: how a process gets permission to use AMX tiles is known only for Linux.
func tilesPermitted() bool { return false }
