//go:build !noasm && !linux

package kernels

// tilesPermitted is false where it is not known how a process asks for AMX tiles.
func tilesPermitted() bool { return false }
