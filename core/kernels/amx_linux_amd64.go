//go:build !noasm

package kernels

import "golang.org/x/sys/unix"

// tilesPermitted asks the kernel for permission to use AMX tiles, which every process has to. Source: Linux,
// Documentation/arch/x86/xstate.rst.
func tilesPermitted() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return err == 0
}
