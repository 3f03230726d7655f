package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/plugin/host"
	"harness.invalid/core/plugin/python"
)

// hostileFolder makes a working folder whose modules have the names of those that the probe and the SDK import, and
// returns a function that lists the ones that were executed.
func hostileFolder(t *testing.T) (executed func() []string) {
	t.Helper()
	folder, log := t.TempDir(), filepath.Join(t.TempDir(), "executed")
	for _, name := range []string{
		"contextlib.py", "warnings.py", "importlib/__init__.py", "types.py", "google/__init__.py", "google/protobuf/__init__.py", "grpc.py",
		"numpy.py", "zipimport.py", "site.py", "sitecustomize.py", "usercustomize.py", "harness_plugin.py",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("print('"+name+"', file=open('"+log+"', 'a'))\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	return func() []string {
		text, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
}

// TestHostileFolder: nothing that lies in the working folder is executed, neither to look for modules nor to serve,
// even where PYTHONPATH has an empty entry, which Python takes for the working folder.
func TestHostileFolder(t *testing.T) {
	interpreter(t)
	script, err := filepath.Abs("testdata/harness-optimizer-signum")
	if err != nil {
		t.Fatal(err)
	}
	executed := hostileFolder(t)
	for _, given := range []string{"", string(filepath.ListSeparator)} {
		t.Setenv("PYTHONPATH", given)
		if _, err := python.Interpreter(t.Context(), python.Modules); err != nil {
			t.Errorf("PYTHONPATH=%s: %v", given, err)
		}
	}
	if got := executed(); len(got) > 0 {
		t.Errorf("looking for modules executed %v of the working folder", got)
	}
	s := spec(t, host.Stream, script)
	_, sdk, _ := strings.Cut(s.Env[0], "=")
	s.Env = []string{"PYTHONPATH=" + python.SearchPath(sdk)}
	if info, err := start(t, s).Optimizer().Describe(t.Context()); err != nil || info.Name != "signum" {
		t.Errorf("it describes itself as %+v, error %v", info, err)
	}
	if got := executed(); len(got) > 0 {
		t.Errorf("the plugin executed %v of the working folder", got)
	}
}

// TestOwnModules: modules that the user put into PYTHONPATH are found.
func TestOwnModules(t *testing.T) {
	interpreter(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "only_here.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", "/no/such/folder:"+folder)
	if _, err := python.Interpreter(t.Context(), []python.Module{{Name: "only_here"}}); err != nil {
		t.Error(err)
	}
}
