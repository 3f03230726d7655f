//go:build !portable

package host_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// bubblewrap skips a test where bwrap cannot confine anything: it is not installed, or users may make no namespaces.
func bubblewrap(t *testing.T) {
	t.Helper()
	if err := host.CheckSandbox(host.Bubblewrap); err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(host.Bubblewrap, "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput(); err != nil {
		t.Skipf("bwrap does not work here: %v: %s", err, out)
	}
}

// TestSandbox: a plugin that is confined works as any other, with memory that it shares with the host.
func TestSandbox(t *testing.T) {
	bubblewrap(t)
	for _, transport := range transports {
		s := spec(t, plugin.Optimizer, "adamw", transport)
		s.Sandbox, s.Files = host.Bubblewrap, s.Path
		p := start(t, s)
		info, err := p.Optimizer().Describe(t.Context())
		if err != nil || info.Name != "adamw" || p.Transport() != transport {
			t.Errorf("%s: %v, %v", transport, info, err)
		}
	}
}

// TestConfinement: what a confined plugin can reach.
func TestConfinement(t *testing.T) {
	bubblewrap(t)
	home, sockets := t.TempDir(), t.TempDir()
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(script string) (string, error) {
		path, args, err := host.Confined(host.Spec{Path: "/bin/sh", Args: []string{"-c", script}, Sandbox: host.Bubblewrap}, sockets,
			[]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(path, args...).CombinedOutput()
		return string(out), err
	}
	for _, denied := range []string{
		"cat " + secret, "cat /etc/passwd", "ls /root/* /home/*", "echo x >/usr/x", "[ -e /proc/" + strconv.Itoa(os.Getpid()) + "/environ ]",
		"grep -q : /proc/net/route && exit 0; grep -vqE 'lo:|\\|' /proc/net/dev",
	} {
		if out, err := run(denied); err == nil || strings.Contains(out, "s3cret") {
			t.Errorf("%s: %q, %v", denied, out, err)
		}
	}
	for _, allowed := range []string{"echo x >" + sockets + "/s", "echo x >/tmp/x", "echo x >" + home + "/x", "ls /usr/bin"} {
		if out, err := run(allowed); err != nil {
			t.Errorf("%s: %q, %v", allowed, out, err)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the plugin wrote into its home is there: %v", err)
	}
}

// TestOwnSandbox: another program starts the plugin in its place.
func TestOwnSandbox(t *testing.T) {
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\necho confined >&2\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	s := spec(t, plugin.Optimizer, "adamw", host.Memory)
	s.Sandbox, s.Stderr = wrapper, &said
	p, err := host.Launch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil || !strings.Contains(said.String(), "confined") {
		t.Errorf("%q, %v", said.String(), err)
	}
	s.Sandbox = filepath.Join(t.TempDir(), "none")
	if _, err := host.Launch(t.Context(), s); err == nil {
		t.Error("a plugin is started without the sandbox that is asked for")
	}
}
