package catalog_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"harness.invalid/harness/catalog"
)

// TestHostileFolder lists the plugins in a folder whose modules have the names of those that Python plugins import:
// none may be executed, and no plugin may be started in a way that has Python look into the working folder.
func TestHostileFolder(t *testing.T) {
	folder, script := t.TempDir(), filepath.Join(t.TempDir(), "harness-optimizer-mine")
	marker := filepath.Join(t.TempDir(), "executed")
	for _, name := range []string{"contextlib.py", "google.py", "numpy.py", "torch.py"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("open('"+marker+"', 'w')\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(script, []byte("#!/usr/bin/python3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HARNESS_PLUGIN_PATH", filepath.Dir(script))
	own := t.TempDir()
	t.Setenv("PYTHONPATH", string(filepath.ListSeparator)+own)
	list, err := catalog.List()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a module of the working folder was executed")
	}
	mine := slices.IndexFunc(list, func(e catalog.Entry) bool { return e.Name == "mine" })
	if mine < 0 || len(list[mine].Env) != 1 {
		t.Fatalf("no plugin named mine with one variable among %+v", list)
	}
	for _, e := range list {
		for _, v := range e.Env {
			folders := filepath.SplitList(v[len("PYTHONPATH="):])
			if slices.Contains(folders, "") || folders[0] != own {
				t.Errorf("%s gets %s, want the user's folder and no empty entry", e.Name, v)
			}
		}
	}
}
