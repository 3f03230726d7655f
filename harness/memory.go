package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// PeakMemory is the most memory in bytes that this program and each plugin had resident so far; without those that the system does not tell of.
func (p *processes) PeakMemory() map[string]int64 {
	peaks := map[string]int64{}
	add := func(name string, pid int) {
		if n := peakResident(pid); n > 0 {
			peaks[name] = n
		}
	}
	add("host", os.Getpid())
	if p.backend != nil {
		add("backend", p.backend.PID())
	}
	for name, o := range p.rules {
		add("optimizer "+name, o.PID())
	}
	return peaks
}

// peakResident reads what Linux tells of a process; 0 elsewhere. Source: proc_pid_status(5), VmHWM.
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
