package results

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// LoadAverage is the system's load over 1, 5 and 15 minutes; nil where it does not say.
func LoadAverage() []float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	load := make([]float64, 3)
	if _, err := fmt.Sscan(string(text), &load[0], &load[1], &load[2]); err != nil {
		return nil
	}
	return load
}

// cpuModel is the name that the CPU gives itself on amd64. On arm64 the kernel tells codes only, and a board's name
// if there is one.
func cpuModel() string {
	if name := procField("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	if board, err := os.ReadFile("/proc/device-tree/model"); err == nil {
		return strings.TrimRight(string(board), "\x00\n")
	}
	part := procField("/proc/cpuinfo", "CPU part")
	if part == "" {
		return ""
	}
	return "implementer " + procField("/proc/cpuinfo", "CPU implementer") + " part " + part
}

func memoryBytes() int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// procField returns the first value under a key of a file of Linux's proc.
func procField(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
