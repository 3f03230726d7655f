package host

import (
	"errors"
	"time"

	"google.golang.org/grpc/connectivity"
)

// closeGrace is how long a plugin may take to end when it is asked to.
const closeGrace = 5 * time.Second

// Close ends the process, with all that it started in its process group, and waits until it is gone; one that another
// process started keeps running. It may be called more than once, also after the process has died.
func (p *Process) Close() error { return p.close() }

// end ends the process: it is asked to, and killed after grace, or at once if grace is 0. Only a start that is
// cancelled kills by itself; otherwise all launched plugins are ended here. If another process started the plugin,
// only the connection is closed.
func (p *Process) end(grace time.Duration) {
	if p.kill == nil {
		return // it was never started
	}
	if grace > 0 && p.client != nil {
		hung := time.AfterFunc(grace, p.kill)
		p.client.Kill() // asks first
		hung.Stop()
	}
	p.kill()
	if p.attached != nil || p.cmd.Process != nil {
		p.awaitExit()
	}
}

// shutDown ends the process and frees what the host kept for it.
func (p *Process) shutDown() error {
	p.end(closeGrace)
	close(p.ended)
	p.thread.Wait()
	p.words.finish()
	var errs []error
	if p.lifeline != nil {
		errs = append(errs, p.lifeline.Close(), p.lifelineOther.Close())
	}
	if p.ownArena {
		errs = append(errs, p.arena.Close())
	}
	errs = append(errs, p.removeSockets())
	return errors.Join(errs...)
}

func (p *Process) removeSockets() error {
	if p.sockets == "" {
		return nil
	}
	err := p.unsocket()
	p.sockets = ""
	return err
}

// Exited reports whether the process, or the connection to one that another process started, is gone.
func (p *Process) Exited() bool {
	if p.attached != nil {
		s := p.attached.GetState()
		return s == connectivity.TransientFailure || s == connectivity.Shutdown
	}
	return p.client.Exited()
}

// awaitExit waits a moment for a process that is going down, so that its exit status and its last words are known.
func (p *Process) awaitExit() {
	for deadline := time.Now().Add(2 * time.Second); !p.Exited() && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
}

// exitStatus says how the process ended, "" while it runs.
func (p *Process) exitStatus() string {
	if !p.Exited() || p.attached != nil || p.cmd.ProcessState == nil {
		return ""
	}
	return p.cmd.ProcessState.String()
}
