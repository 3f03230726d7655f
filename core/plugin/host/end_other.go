//go:build !unix || portable

package host

import (
	"os"
)

// terminate kills a process: there is no way to ask it to end.
func terminate(p *os.Process) error { return p.Kill() }

// killGroup kills a process: there are no process groups.
func killGroup(p *os.Process) {
	_ = p.Kill() // its only error is that the process has ended
}
