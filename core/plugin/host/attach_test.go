package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// expose runs a plugin until the function that it returns is called, which gives the error of its end.
func expose(t *testing.T, s host.Spec) (a host.Address, pid int, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	type place struct {
		a   host.Address
		pid int
	}
	ready, ended := make(chan place, 1), make(chan error, 1)
	go func() {
		ended <- host.Expose(ctx, s, nil, os.Stderr, func(a host.Address, pid int) { ready <- place{a, pid} })
	}()
	select {
	case p := <-ready:
		return p.a, p.pid, func() error {
			cancel()
			return <-ended
		}
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	return
}

// TestAttach: hosts come and go, and the plugin runs until it is told to end. It honours its contract all the
// while, and its errors reach the host.
func TestAttach(t *testing.T) {
	s := spec(t, plugin.Optimizer, "sgd", host.Memory)
	address, pid, end := expose(t, s)
	attached := host.Spec{Kind: plugin.Optimizer, Name: "sgd", Address: address}
	for range 2 {
		p := start(t, attached)
		if p.Transport() != host.Stream || p.PID() != 0 || p.Environment() != nil {
			t.Errorf("transport %s, process %d, environment %v", p.Transport(), p.PID(), p.Environment())
		}
		for _, r := range optimizertest.Conformance(t.Context(), p.Optimizer()) {
			if r.Err != nil {
				t.Errorf("%s: %v", r.Name, r.Err)
			}
		}
		_, err := p.Optimizer().Slots(t.Context(), map[string]string{"momentun": "1"})
		wants(t, err, "optimizer sgd: slots: ", "momentum")
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if !alive(t, pid) {
			t.Error("the plugin went with its host")
		}
	}
	p := start(t, attached)
	u, _ := updates(t, p)
	if err := end(); err != nil {
		t.Errorf("end: %v", err)
	}
	_, err := u.Step(t.Context(), optimizer.Step{Step: 7, LR: 0.1})
	wants(t, err, "optimizer sgd: step 7: the plugin died or closed the connection")
	if !errors.Is(err, host.ErrDied) {
		t.Errorf("%v is not ErrDied", err)
	}
	if _, err = host.Launch(t.Context(), attached); !errors.Is(err, host.ErrDied) {
		t.Errorf("%v is not ErrDied", err)
	}
	wants(t, err, "optimizer sgd: start: no plugin answers at "+string(address))
}

// TestAttachCancelled: a host that cancels a call does not wait for the plugin, and the plugin keeps running.
func TestAttachCancelled(t *testing.T) {
	address, pid, end := expose(t, spec(t, plugin.Optimizer, "patient", host.Stream))
	defer end()
	u, _ := updates(t, start(t, host.Spec{Kind: plugin.Optimizer, Name: "patient", Address: address}))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := u.Step(ctx, optimizer.Step{Step: 1, LR: 0.1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
	if !alive(t, pid) {
		t.Error("the plugin is gone")
	}
}

// TestExposeFails: a plugin that ends before a host can attach, or dies later, is an error.
func TestExposeFails(t *testing.T) {
	for role, texts := range map[string][]string{
		"early":     {"optimizer early: it ended before it said hello (exit status 4)"},
		"chatty":    {"optimizer chatty: it ended before it said hello"},
		"version-7": {"it speaks protocol version 7, this harness speaks version 1"},
	} {
		var out, stderr bytes.Buffer
		s := spec(t, plugin.Optimizer, role, host.Memory)
		s.Stderr = &stderr
		err := host.Expose(t.Context(), s, nil, &out, func(host.Address, int) { t.Errorf("%s is ready", role) })
		wants(t, err, texts...)
		if role == "early" && !strings.Contains(stderr.String(), "libipu.so") || role == "chatty" && out.String() != "Hello, world!\n" {
			t.Errorf("%s: printed %q and %q", role, &out, &stderr)
		}
	}
	address, _, end := expose(t, spec(t, plugin.Optimizer, "crash", host.Memory))
	u, _ := updates(t, start(t, host.Spec{Kind: plugin.Optimizer, Name: "crash", Address: address}))
	_, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0.1})
	wants(t, err, "the plugin died")
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(strings.TrimPrefix(string(address), "unix:")); err != nil {
			break // the folder is removed last
		}
	}
	if err := end(); err != nil { // may be nil: the context is checked first, and then the plugin counts as asked to end
		wants(t, err, "optimizer crash: the plugin died (exit status 3)")
	}
}

func TestAddress(t *testing.T) {
	for a, text := range map[host.Address]string{
		"unix:/tmp/x": "", "tcp:127.0.0.1:80": "", "tcp:[::1]:80": "", "tcp:localhost:80": "",
		"": `address is ""`, "unix:": `address is "unix:"`, "/tmp/x": "want unix:PATH", "tcp:80": "is not HOST:PORT",
		"tcp:example.org:80": "on this machine", "tcp:10.0.0.1:80": "on this machine",
	} {
		if err := a.Check(); (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("Check(%q) = %v, want %q", a, err, text)
		}
	}
}

// TestGreeting splits the output of a debugger and a plugin at every byte.
func TestGreeting(t *testing.T) {
	for _, text := range []struct{ before, line, after string }{
		{"", "1|1|unix|/tmp/s|grpc|\n", ""},
		{"listening at 127.0.0.1:2341\n1 | 2\n", "1|1|unix|/tmp/s|grpc|\n", "later\n1|1|unix|/tmp/other|grpc|\n"},
		{"(Pdb) ", "1|1|unix|/tmp/s|grpc\n", "(Pdb) "},
		{"11|", "1|1|unix|/tmp/s|grpc|AAAA\n", ""},
	} {
		whole := text.before + text.line + text.after
		for i := range len(whole) + 1 {
			var out bytes.Buffer
			var found []string
			w := host.NewGreeting(&out, func(version, network, address string) { found = append(found, version, network, address) })
			for _, part := range []string{whole[:i], whole[i:]} {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", part, n, err)
				}
			}
			if out.String() != text.before+text.after || fmt.Sprint(found) != "[1 unix /tmp/s]" {
				t.Errorf("%q cut at %d: passed on %q, found %v", whole, i, &out, found)
			}
		}
	}
	// A prompt is passed on before anything follows it.
	var out bytes.Buffer
	_, _ = host.NewGreeting(&out, nil).Write([]byte("(Pdb) "))
	if out.String() != "(Pdb) " {
		t.Errorf("of a prompt %q came through", &out)
	}
}
