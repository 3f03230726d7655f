package results

import "golang.org/x/sys/unix"

// LoadAverage is the system's load over 1, 5 and 15 minutes; nil where it does not say.
func LoadAverage() []float64 { return nil }

func cpuModel() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}

func memoryBytes() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
