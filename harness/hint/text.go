package hint

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// Text is the text of err for people: what the operating system and the network say, without the names of the calls
// that heard it (stat, lstat, dial tcp).
func Text(err error) string {
	text := err.Error()
	var walk func(err error)
	walk = func(err error) {
		if said := plain(err); said != "" {
			text = strings.ReplaceAll(text, err.Error(), said)
			return
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				walk(inner)
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		}
	}
	walk(err)
	return text
}

// plain is what one error says, not what it wraps; "": as it says it itself.
func plain(err error) string {
	switch e := err.(type) {
	case *fs.PathError:
		if errors.Is(e.Err, fs.ErrNotExist) {
			return e.Path + ": there is no such file or folder"
		}
		return e.Path + ": " + e.Err.Error()
	case *net.OpError:
		reason := reasonOf(e.Err)
		var named *net.DNSError
		if e.Addr == nil || errors.As(e.Err, &named) {
			return reason
		}
		return e.Addr.String() + ": " + reason
	case *net.DNSError, *net.AddrError:
		return reasonOf(err)
	}
	return ""
}

// reasonOf is why a connection came to nothing.
func reasonOf(err error) string {
	var named *net.DNSError
	var address *net.AddrError
	var call *os.SyscallError
	switch {
	case errors.As(err, &named) && named.IsNotFound:
		return "no host is named " + named.Name + " here"
	case errors.As(err, &named):
		return "the name of the host " + named.Name + " can't be looked up: " + named.Err
	case errors.As(err, &address):
		return address.Addr + ": " + address.Err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused)"
	case errors.As(err, &call):
		return call.Err.Error()
	}
	return err.Error()
}
