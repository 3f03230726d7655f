//go:build !noasm

package kernels

import "golang.org/x/sys/cpu"

// levels returns what this build and processor can run, the slowest first.
func levels() []*table {
	list := []*table{&generic}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C {
		list = append(list, &avx2)
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		list = append(list, &avx512)
	}
	return list
}
