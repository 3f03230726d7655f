package processes

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// PeakMemory is the most memory in bytes that this program and each plugin had resident so far. Processes that the
// system tells nothing about are left out.
func (s *Set) PeakMemory() map[string]int64 {
	peaks := map[string]int64{}
	add := func(name string, pid int) {
		if n := peakResident(pid); n > 0 {
			peaks[name] = n
		}
	}
	add("host", os.Getpid())
	if s.backend != nil {
		add("backend", s.backend.PID())
	}
	for name, p := range s.rules {
		add("optimizer "+name, p.PID())
	}
	return peaks
}

// peakResident reads what Linux tells about a process; 0 elsewhere. Source: proc_pid_status(5), VmHWM.
func peakResident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		words := bytes.Fields(lines.Bytes())
		if len(words) != 3 || string(words[0]) != "VmHWM:" || string(words[2]) != "kB" {
			continue
		}
		n, err := strconv.ParseInt(string(words[1]), 10, 64)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return 0
}
