//go:build !portable

package executor

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// allowedCores are those that this process may use.
func allowedCores() (cores []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return coresByNumber()
	}
	for i := range len(set) * strconv.IntSize {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}

// useCores limits this thread, and the processes that it starts, to cores.
func useCores(cores []int) error {
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	return unix.SchedSetaffinity(0, &set)
}

// endsWithParent has the system send SIGTERM when the thread that started the process ends, as it does with this process.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// availableMemory is what the system would hand out before it swaps, and the limit of the control group allows; 0: not
// known. Sources: proc_meminfo(5), Linux' cgroup-v2.
func availableMemory() int64 {
	n := int64(0)
	for line := range strings.Lines(readSystem("/proc/meminfo")) {
		if v, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n = number(strings.TrimSuffix(strings.TrimSpace(v), " kB")) << 10
		}
	}
	limit, used := number(readSystem("/sys/fs/cgroup/memory.max")), number(readSystem("/sys/fs/cgroup/memory.current"))
	if limit > used {
		n = min(n, limit-used)
	}
	return n
}

func readSystem(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// number is 0 for a text that is none, such as max.
func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
