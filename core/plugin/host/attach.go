package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Address is where a plugin listens that this process did not start, such as one under a debugger: unix:PATH, or
// tcp:HOST:PORT on this machine. There is no TLS: a Unix socket is protected by the permissions of its folder.
type Address string

func (a Address) split() (network, address string, err error) {
	network, address, ok := strings.Cut(string(a), ":")
	switch {
	case ok && network == "unix" && address != "":
		return network, address, nil
	case ok && network == "tcp":
		host, port, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && port != "" && (host == "localhost" || ip != nil && ip.IsLoopback()) {
			return network, address, nil
		}
		return "", "", fmt.Errorf("address %s is not HOST:PORT on this machine, such as tcp:127.0.0.1:4000", a)
	}
	return "", "", fmt.Errorf("address is %q, want unix:PATH or tcp:HOST:PORT", string(a))
}

// Check reports an address that nobody can listen at.
func (a Address) Check() error {
	_, _, err := a.split()
	return err
}

// forever is how long a plugin under a debugger may take.
const forever = 10 * 365 * 24 * time.Hour

var debugged = Timeouts{Start: forever, Call: forever, Open: forever, Step: forever, Floor: forever}

// attach connects to a running plugin. Its memory is streamed, since only children inherit an arena. No call has a
// deadline, as the plugin may stop at a breakpoint, and Close leaves it running for the next host.
func attach(ctx context.Context, spec Spec) (*Process, error) {
	network, address, err := spec.Address.split()
	if err != nil {
		return nil, err
	}
	spec.Timeouts = debugged
	p := &Process{spec: spec, transport: Stream, words: newLastWords(nil)}
	p.attached, err = grpc.NewClient("passthrough:///"+address, append(dialOptions,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))...)
	if err != nil {
		return nil, err
	}
	p.kill = func() { _ = p.attached.Close() } // its only error is that it is closed
	p.close = func() error { p.end(0); return nil }
	p.serveCalls(p.attached)
	if err := p.greet(ctx); err != nil {
		if errors.Is(err, ErrDied) {
			err = fmt.Errorf("no plugin answers at %s: was it ended? %w", spec.Address, err)
		}
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}
