//go:build !unix

package host

import (
	"os"
)

// terminate ends a process: there is no way to ask.
func terminate(p *os.Process) error { return p.Kill() }
