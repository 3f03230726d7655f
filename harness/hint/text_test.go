package hint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"harness.invalid/harness/hint"
)

// TestText: no names of calls in what people read, wherever in an error they are.
func TestText(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nope")
	_, stat := os.Stat(missing)
	_, open := os.Open(missing)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, dial := net.Dial("tcp", address)
	_, noPort := net.Listen("tcp", "nope")
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "a.invalid", IsNotFound: true}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("width is 3"), "width is 3"},
		{stat, missing + ": there is no such file or folder"},
		{hint.With(fmt.Errorf("inspect: %w", open), "advice"), "inspect: " + missing + ": there is no such file or folder"},
		{errors.Join(stat, errors.New("other")), missing + ": there is no such file or folder\nother"},
		{&fs.PathError{Op: "open", Path: "a", Err: fs.ErrPermission}, "a: permission denied"},
		{dial, address + ": nothing listens there (connection refused)"},
		{noPort, "nope: missing port in address"},
		{&url.Error{Op: "Get", URL: "https://a.invalid/x", Err: unknown}, `Get "https://a.invalid/x": no host is named a.invalid here`},
	} {
		if got := hint.Text(c.err); got != c.want {
			t.Errorf("%v:\n%s\nwant\n%s", c.err, got, c.want)
		}
	}
}
