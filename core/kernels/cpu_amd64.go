//go:build !noasm

package kernels

import (
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// levels returns the implementations that this build and processor can run, the slowest first.
func levels() []*table {
	list := []*table{&generic}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C {
		list = append(list, &avx2)
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		list = append(list, &avx512)
		if cpu.X86.HasAVX512BF16 {
			// Of Intel's processors those without AMX do as many multiply-adds of FP32, and those with it twice as many.
			if vendorName() == "AuthenticAMD" {
				list = append(list, &avx512bf16)
			} else {
				list = slices.Insert(list, len(list)-1, &avx512bf16)
			}
		}
		if cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 && tilesPermitted() {
			list = append(list, &amx)
		}
	}
	return list
}

// vendor names the processor's maker where results depend on it: makers differ in AVX-512's approximate reciprocal,
// with which divisions start.
func vendor(level string) string {
	if !strings.HasPrefix(level, avx512.name) && level != amx.name {
		return ""
	}
	return vendorName()
}

func vendorName() string {
	_, b, c, d := cpuid(0, 0)
	name := binary.LittleEndian.AppendUint32(nil, b)
	name = binary.LittleEndian.AppendUint32(name, d)
	return string(binary.LittleEndian.AppendUint32(name, c))
}

// firstLevel asks CPUID for the first level data cache, which has 0 ways where the processor does not tell.
// Sources: AMD64 Architecture Programmer's Manual, volume 3, leaf 8000_001D; Intel 64 and IA-32 Architectures
// Software Developer's Manual, volume 2, leaf 4, which has the same layout.
func firstLevel() cache {
	leaf := uint32(4)
	if vendorName() == "AuthenticAMD" {
		leaf = 0x8000001d
	}
	a, b, c, _ := cpuid(leaf, 0)
	if kind, level := a&31, a>>5&7; kind != 1 || level != 1 {
		return cache{}
	}
	return cache{ways: int(b>>22) + 1, way: (int(b&4095) + 1) * (int(c) + 1) / 4}
}

// fetchAhead is how many bytes ahead passes over memory prefetch: a page on Intel's processors, whose prefetchers
// stop at the end of each (sums of squares 26%, AdamW 3% faster), and nothing on AMD's, which are faster without
// (Zen 4: AdamW 16 to 30%, sums of squares 3 to 17%).
//
//lint:ignore U1000 assembly reads it
var fetchAhead = func() int {
	if vendorName() == "AuthenticAMD" {
		return 0
	}
	return 4096
}()
