package host_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// write makes a file with the folders around it.
func write(t *testing.T, text string, elem ...string) string {
	t.Helper()
	path := filepath.Join(elem...)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPin changes a pinned folder in every way, and restores it.
func TestPin(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "harness-optimizer-mine")
	write(t, "#!/bin/sh\n", folder, "harness-optimizer-mine")
	rule := write(t, "lr = 1\n", folder, "rules", "rule.py")
	hash := func() string {
		t.Helper()
		h, err := host.Hash(folder)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	before := hash()
	if err := host.CheckPin(folder); err != nil {
		t.Errorf("before it is pinned: %v", err)
	}
	if err := host.Pin(folder); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		change, undo func() error
		text         string
	}{
		{
			"changed",
			func() error { return os.WriteFile(rule, []byte("lr = 2\n"), 0o666) },
			func() error { return os.WriteFile(rule, []byte("lr = 1\n"), 0o666) },
			"harness-optimizer-mine/rules/rule.py has SHA-256 ",
		},
		{
			"gone",
			func() error { return os.Rename(rule, filepath.Join(dir, "away")) },
			func() error { return os.Rename(filepath.Join(dir, "away"), rule) },
			"harness-optimizer-mine/rules/rule.py is gone",
		},
		{
			"new",
			func() error { return os.WriteFile(rule+"2", nil, 0o666) },
			func() error { return os.Remove(rule + "2") },
			"harness-optimizer-mine/rules/rule.py2 is new",
		},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		err := host.CheckPin(folder)
		wants(t, err, c.text, folder+": it was changed since it was pinned in harness-optimizer-mine.sha256: ")
		if !errors.Is(err, host.ErrChanged) {
			t.Errorf("%s: %v is not ErrChanged", c.name, err)
		}
		if hash() == before {
			t.Errorf("%s: the hash has not changed", c.name)
		}
		if err := c.undo(); err != nil {
			t.Fatal(err)
		}
		if err := host.CheckPin(folder); err != nil || hash() != before {
			t.Errorf("put right after %s: %v, hash %s, want %s", c.name, err, hash(), before)
		}
	}
}

// TestPinFile: the file that pins a folder is one that sha256sum reads, and leaves out what Python compiled.
func TestPinFile(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "harness-optimizer-mine")
	write(t, "#!/bin/sh\n", folder, "harness-optimizer-mine")
	write(t, "lr = 1\n", folder, "rules", "rule.py")
	if err := host.Pin(folder); err != nil {
		t.Fatal(err)
	}
	before, err := host.Hash(folder)
	if err != nil {
		t.Fatal(err)
	}
	// What Python compiled is not part of it.
	write(t, "code", folder, "rules", "__pycache__", "rule.cpython-311.pyc")
	if err := host.CheckPin(folder); err != nil {
		t.Errorf("after Python has compiled it: %v", err)
	}

	// The sums are sha256sum's, and the hash is the sum of the file that holds them.
	pin, err := host.Hash(folder + host.PinSuffix)
	if err != nil || pin != before {
		t.Errorf("the file that pins has hash %s, %v, want %s", pin, err, before)
	}
	if program, err := exec.LookPath("sha256sum"); err == nil {
		cmd := exec.Command(program, "--check", "--strict", "harness-optimizer-mine.sha256")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("sha256sum: %v\n%s", err, out)
		}
	}
	if err := os.WriteFile(folder+host.PinSuffix, []byte("not sums"), 0o666); err != nil {
		t.Fatal(err)
	}
	wants(t, host.CheckPin(folder), "harness-optimizer-mine/harness-optimizer-mine is new")
}

// TestPinnedFile: a plugin that is one file is found, pinned, started, and refused once it has changed. The file
// that pins it does not count as a plugin.
func TestPinnedFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("writes a script")
	}
	folder := t.TempDir()
	s := spec(t, plugin.Optimizer, "sgd", host.Memory)
	path := write(t, "#!/bin/sh\nexec '"+s.Path+"'\n", folder, "harness-optimizer-sgd")
	s.Path, s.Files = path, path
	if err := host.Pin(path); err != nil {
		t.Fatal(err)
	}
	found, err := host.Discover([]string{folder})
	if err != nil || len(found) != 1 || found[0].Path != path || found[0].Files() != path || !found[0].Pinned() || found[0].Problem != "" {
		t.Fatalf("Discover = %+v, %v", found, err)
	}
	if _, err := start(t, s).Optimizer().Describe(t.Context()); err != nil {
		t.Error(err)
	}
	write(t, "#!/bin/sh\n", path)
	_, err = host.Launch(t.Context(), s)
	wants(t, err, "optimizer sgd: start: "+path+": it was changed since it was pinned")
	if !errors.Is(err, host.ErrChanged) {
		t.Errorf("%v is not ErrChanged", err)
	}
}

// TestFolderOfPlugin: a folder that holds an executable of the same name is a plugin.
func TestFolderOfPlugin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("executables have another name there")
	}
	dir := t.TempDir()
	inner := write(t, "#!/bin/sh\n", dir, "harness-backend-tpu", "harness-backend-tpu")
	found, err := host.Discover([]string{dir})
	if err != nil || len(found) != 1 {
		t.Fatalf("Discover = %+v, %v", found, err)
	}
	f := found[0]
	if f.Kind != plugin.Backend || f.Name != "tpu" || f.Path != inner || f.Files() != filepath.Dir(inner) || f.Problem != "" || f.Pinned() {
		t.Errorf("found %+v", f)
	}
	if name := host.Executable(f.Kind, f.Name); !strings.HasSuffix(inner, "/"+name) {
		t.Errorf("Executable = %s", name)
	}
}
