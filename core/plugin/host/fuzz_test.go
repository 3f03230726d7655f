package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzGreeting: whatever pieces a process prints in, all but the handshake is passed on, and the handshake is found.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte("hello\n1|1|unix|/tmp/s|grpc\nmore"), uint8(3))
	f.Add([]byte("1|1|tcp|127.0.0.1:1|grpc|cert\n"), uint8(1))
	f.Add([]byte("(dlv) 1|x1|1|unix||grpc"), uint8(200))
	f.Fuzz(func(t *testing.T, printed []byte, size uint8) {
		read := func(size int) (out string, found []string) {
			var b bytes.Buffer
			g := &greeting{out: &b, found: func(version, network, address string) {
				found = append(found, version+" "+network+" "+address)
			}}
			for rest := printed; len(rest) > 0; {
				n := min(size, len(rest))
				if m, err := g.Write(rest[:n]); m != n || err != nil {
					t.Fatal(m, err)
				}
				rest = rest[n:]
			}
			return b.String() + string(g.held), found
		}
		out, found := read(len(printed) + 1)
		inPieces, foundInPieces := read(int(size) + 1)
		if len(found) > 1 || strings.Join(found, ",") != strings.Join(foundInPieces, ",") || out != inPieces {
			t.Errorf("%q: %q %v, and in pieces of %d %q %v", printed, out, found, size+1, inPieces, foundInPieces)
		}
	})
}

// FuzzPin: no text passes for the pin of a plugin but its sums.
func FuzzPin(f *testing.F) {
	home := f.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME"} {
		f.Setenv(name, home)
	}
	plugin := filepath.Join(home, "harness-optimizer-mine")
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		f.Fatal(err)
	}
	sums, err := sumsOf(plugin)
	if err != nil {
		f.Fatal(err)
	}
	right := strings.Join(sums, "")
	f.Add(right, "")
	f.Add(strings.ToUpper(right), "{}")
	f.Add(right+right, `{"`+plugin+`": "x"}`)
	f.Add("\n", `{"a": 1}`)
	pins := filepath.Join(home, "harness", pinsFile)
	if err := os.MkdirAll(filepath.Dir(pins), 0o777); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pin, known string) {
		for path, text := range map[string]string{plugin + PinSuffix: pin, pins: known} {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := CheckPin(plugin); err == nil && pin != right {
			t.Errorf("%q passes", pin)
		}
	})
}

// FuzzAddress: every address that is accepted can be dialled.
func FuzzAddress(f *testing.F) {
	f.Add("unix:/tmp/s")
	f.Add("tcp:127.0.0.1:80")
	f.Add("unix:")
	f.Fuzz(func(t *testing.T, text string) {
		if Address(text).Check() == nil && !strings.HasPrefix(text, "unix:") && !strings.HasPrefix(text, "tcp:") {
			t.Errorf("%q passes", text)
		}
	})
}
