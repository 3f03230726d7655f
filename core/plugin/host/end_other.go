//go:build !unix

package host

import (
	"os"
)

// terminate kills a process: there is no way to ask it to end.
func terminate(p *os.Process) error { return p.Kill() }
