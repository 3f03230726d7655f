package extension

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
)

// TestFind: a name is enough where only one kind has it, and errors suggest similar names.
func TestFind(t *testing.T) {
	t.Setenv("HARNESS_PLUGIN_PATH", "")
	e, err := Find("", "adamw")
	if err != nil || e.Kind != plugin.Optimizer || !e.BuiltIn {
		t.Errorf("adamw is %+v, %v", e, err)
	}
	for _, c := range []struct{ kind, name, want string }{
		{"", "adamv", "did you mean adamw?"},
		{"backend", "adamw", `no backend is named "adamw"`},
		{"backends", "ipu", "did you mean backend?"},
	} {
		if _, err := Find(c.kind, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.kind, c.name, err, c.want)
		}
	}
}

// TestDebug: the debugger's command comes before the plugin's; a debugger for Python runs the script with the interpreter
// that has the modules.
func TestDebug(t *testing.T) {
	compiled := catalog.Entry{Kind: plugin.Optimizer, Name: "mine", Path: "/p/mine", Args: []string{"serve"}}
	script := catalog.Entry{Kind: plugin.Optimizer, Name: "mine", Path: "/venv/python", Args: []string{"/p/mine"}, Script: "/p/mine"}
	for _, c := range []struct {
		e        catalog.Entry
		debugger string
		want     string
	}{
		{compiled, "", "/p/mine serve"},
		{compiled, "gdb --args", "gdb --args /p/mine serve"},
		{script, "python3 -m pdb", "/venv/python -m pdb /p/mine"},
		{script, "debugpy", "debugpy /p/mine"},
	} {
		s, err := Debug(c.e, strings.Fields(c.debugger))
		if got := strings.Join(append([]string{s.Path}, s.Args...), " "); err != nil || got != c.want {
			t.Errorf("%q runs %q, %v; want %q", c.debugger, got, err, c.want)
		}
	}
}

// TestPluginIn: a file is a plugin by its name, a folder by the only plugin in it.
func TestPluginIn(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fails := func(path, want string) {
		t.Helper()
		if _, err := pluginIn(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	fails(write("notes", 0o666), "rename it")
	fails(dir, "build the plugin first")
	fails(write("harness-optimizer-x_y", 0o777), "other characters")
	if err := os.Remove(filepath.Join(dir, "harness-optimizer-x_y")); err != nil {
		t.Fatal(err)
	}
	path := write("harness-optimizer-mine", 0o777)
	for _, from := range []string{path, dir} {
		if f, err := pluginIn(from); err != nil || f.Path != path || f.Name != "mine" || f.Kind != plugin.Optimizer {
			t.Errorf("%s: %+v, %v", from, f, err)
		}
	}
	write("harness-backend-mine", 0o777)
	fails(dir, "has several plugins, harness-backend-mine, harness-optimizer-mine")
}

// TestCopyPlugin: all files are copied with their executable bits, except what tools left in the folder.
func TestCopyPlugin(t *testing.T) {
	from, into := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "into")
	for name, mode := range map[string]os.FileMode{"harness-optimizer-mine": 0o777, "rules/rule.py": 0o644, "__pycache__/rule.pyc": 0o644} {
		path := filepath.Join(from, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyPlugin(from, into); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"*", "*/*"} {
		found, _ := filepath.Glob(filepath.Join(into, pattern))
		for _, f := range found {
			rel, _ := filepath.Rel(into, f)
			files = append(files, filepath.ToSlash(rel))
		}
	}
	if want := []string{"harness-optimizer-mine", "rules", "rules/rule.py"}; !slices.Equal(files, want) {
		t.Errorf("%v are copied, want %v", files, want)
	}
	info, err := os.Stat(filepath.Join(into, "harness-optimizer-mine"))
	if err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("the copy is not executable: %v, %v", info, err)
	}
	if err := host.Pin(into); err != nil {
		t.Error(err)
	}
}
