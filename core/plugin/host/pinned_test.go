package host

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestPinnedCopy: a pinned plugin is started from a copy that nobody can swap after the check.
func TestPinnedCopy(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("HOME", home)
	plugin := filepath.Join(home, "harness-optimizer-mine")
	program := filepath.Join(plugin, "harness-optimizer-mine")
	put := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	put(program, "#!/bin/sh\n")
	put(filepath.Join(plugin, "rules", "rule.py"), "lr = 1\n")
	spec := Spec{Path: program, Args: []string{program, "x" + program, plugin + "-2", plugin}, Files: plugin}
	if s, err := spec.checked(); err != nil || s.Path != program {
		t.Fatalf("not pinned: %s, %v", s.Path, err)
	}
	if err := Pin(plugin); err != nil {
		t.Fatal(err)
	}
	s, err := spec.checked()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Dir(s.Path)
	if copied == plugin || s.Args[0] != s.Path || s.Args[1] != "x"+program || s.Args[2] != plugin+"-2" || s.Args[3] != copied {
		t.Errorf("%s %v is started", s.Path, s.Args)
	}
	// The plugin is swapped after the check: what was checked is started.
	put(program, "#!/bin/sh\nevil\n")
	if text, err := os.ReadFile(s.Path); err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("%q is started: %v", text, err)
	}
	if info, err := os.Stat(s.Path); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm()&0o777 != 0o500) {
		t.Errorf("the copy has the mode %v: %v", info.Mode(), err)
	}
	if _, err := spec.checked(); !errors.Is(err, ErrChanged) {
		t.Errorf("started again: %v", err)
	}
	put(program, "#!/bin/sh\n")
	// A copy that somebody changed is made again.
	rule := filepath.Join(copied, "rules", "rule.py")
	if err := os.Remove(rule); err != nil {
		t.Fatal(err)
	}
	put(rule, "evil\n")
	if s, err = spec.checked(); err != nil || filepath.Dir(s.Path) != copied {
		t.Fatalf("%s, %v", s.Path, err)
	}
	if text, err := os.ReadFile(rule); err != nil || string(text) != "lr = 1\n" {
		t.Errorf("the copy has %q: %v", text, err)
	}
}

// TestDeletedPin: a plugin that was installed is not unpinned because its pin is gone, or is another one.
func TestDeletedPin(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("HOME", home)
	plugin := filepath.Join(home, "harness-optimizer-mine")
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Pin(plugin), Remember(plugin), CheckPin(plugin)); err != nil {
		t.Fatal(err)
	}
	found := Found{Path: plugin}
	if err := os.Remove(plugin + PinSuffix); err != nil {
		t.Fatal(err)
	}
	if err := CheckPin(plugin); !errors.Is(err, ErrChanged) || !found.Pinned() {
		t.Errorf("without its pin: %v, pinned: %v", err, found.Pinned())
	}
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\nevil\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Pin(plugin); err != nil {
		t.Fatal(err)
	}
	if err := CheckPin(plugin); !errors.Is(err, ErrChanged) {
		t.Errorf("with another pin: %v", err)
	}
	if err := errors.Join(Forget(plugin), CheckPin(plugin)); err != nil {
		t.Error(err)
	}
}
