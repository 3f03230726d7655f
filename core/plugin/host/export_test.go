package host

import (
	"io"

	goplugin "github.com/hashicorp/go-plugin"

	"harness.invalid/core/plugin/internal/wire"
)

// For tests that play a plugin that core/plugin would not serve, or end a process in ways that users cannot.

// Handshake is the handshake that a plugin must make.
var Handshake goplugin.HandshakeConfig = wire.Handshake

// CutLifeline closes the host's end of the lifeline, as the kernel does when the host is gone.
func (p *Process) CutLifeline() error { return p.lifeline.Close() }

// Kill ends the process at once.
func (p *Process) Kill() { p.kill() }

// ExitStatus waits for the process to end.
func (p *Process) ExitStatus() string {
	p.awaitExit()
	return p.exitStatus()
}

// NewSocketFolder and Sweep make and remove folders of sockets.
var (
	NewSocketFolder = newSocketFolder
	Sweep           = sweep
)

// NewGreeting looks for a handshake in what a process prints.
func NewGreeting(out io.Writer, found func(version, network, address string)) io.Writer {
	return &greeting{out: out, found: found}
}

// NewTLS is the host's end of a connection, and the certificate that it sends.
var NewTLS = newTLS

// Confined is the command line of a plugin within its sandbox.
func Confined(s Spec, sockets string, environment []string) (path string, args []string, err error) {
	return s.confined(sockets, environment)
}
