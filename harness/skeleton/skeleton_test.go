package skeleton

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/plugin"
)

// TestWrite: a plugin has the template's files under its own name, and the printed commands survive a shell.
func TestWrite(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind     plugin.Kind
		language string
		files    []string
	}{
		{plugin.Optimizer, "go", []string{"go.mod", "go.sum", "main.go", "main_test.go"}},
		{plugin.Backend, "go", []string{"go.mod", "go.sum", "main.go", "main_test.go"}},
		{plugin.Optimizer, "python", []string{"harness-optimizer-my-own", "test_plugin.py"}},
		{plugin.Backend, "python", []string{"harness-backend-my-own", "test_plugin.py"}},
	} {
		p := Plugin{Kind: c.kind, Name: "my-own", Language: c.language, Folder: filepath.Join(t.TempDir(), "my folder")}
		if c.language == "go" {
			p.Module = root
		}
		if err := p.Write(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(p.Folder)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
			text, err := os.ReadFile(filepath.Join(p.Folder, e.Name()))
			if err != nil || strings.Contains(string(text), templateName) {
				t.Errorf("%s %s: %s still has the template's name; %v", c.kind, c.language, e.Name(), err)
			}
		}
		if !slices.Equal(names, c.files) {
			t.Errorf("%s %s: the files are %v, want %v", c.kind, c.language, names, c.files)
		}
		if command := p.Commands()[1]; !strings.HasPrefix(command, "HARNESS_PLUGIN_PATH='") {
			t.Errorf("the folder is not quoted in %s", command)
		}
		if err := p.Write(); err == nil || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("a second time: %v", err)
		}
	}
}

// TestNothing: what can't become a plugin is an error, and nothing is written.
func TestNothing(t *testing.T) {
	for _, c := range []struct {
		p    Plugin
		want string
	}{
		{Plugin{Kind: "optimiser", Name: "my-own", Language: "go"}, `"optimiser", did you mean optimizer?`},
		{Plugin{Kind: plugin.Optimizer, Name: "My", Language: "go"}, "want a-z"},
		{Plugin{Kind: plugin.Optimizer, Name: "adamw", Language: "go"}, "a built-in optimizer has it"},
		{Plugin{Kind: plugin.Optimizer, Name: "my-own", Language: "pyton"}, "did you mean python?"},
		{Plugin{Kind: plugin.Optimizer, Name: "my-own", Language: "go", Module: t.TempDir()}, "no go.mod of module harness.invalid"},
		{Plugin{Kind: plugin.Optimizer, Name: "my-own", Language: "python", Module: "../.."}, "is for plugins in go"},
	} {
		c.p.Folder = filepath.Join(t.TempDir(), "new")
		if err := c.p.Write(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.p, err, c.want)
		}
		if _, err := os.Stat(c.p.Folder); err == nil {
			t.Errorf("%+v: the folder is there", c.p)
		}
	}
}

func TestModString(t *testing.T) {
	for path, want := range map[string]string{"/a/b": "/a/b", "/a b": `"/a b"`, "/a//b": `"/a//b"`} {
		if got := modString(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
