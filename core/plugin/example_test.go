package plugin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
)

// TestExample builds the plugin of a third party, a module of its own, finds it as a user would, and holds it against the contract.
func TestExample(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// A copy, because the build completes go.mod with what this version of harness needs; nothing is fetched that a build of
	// harness did not fetch.
	source := t.TempDir()
	if err := os.CopyFS(source, os.DirFS("testdata/example-optimizer")); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const line = "replace harness.invalid => ../../../.."
	if !strings.Contains(string(mod), line) {
		t.Fatalf("go.mod of the example has no line %q", line)
	}
	for name, text := range map[string]string{
		"go.mod": strings.Replace(string(mod), line, "replace harness.invalid => "+root, 1),
		"go.sum": string(sum),
	} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	build := exec.Command("go", "build", "-mod=mod", "-o", filepath.Join(folder, "harness-optimizer-signum"), ".")
	build.Dir = source
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	found, err := plugin.Discover([]string{folder})
	if err != nil || len(found) != 1 || found[0].Problem != "" {
		t.Fatalf("Discover = %+v, %v, want one plugin", found, err)
	}
	if err := plugin.Pin(found[0].Files()); err != nil {
		t.Fatal(err)
	}
	for _, transport := range transports {
		p := start(t, plugin.Spec{Kind: found[0].Kind, Name: found[0].Name, Path: found[0].Path, Files: found[0].Files(), Transport: transport})
		info, err := p.Optimizer().Describe(t.Context())
		if err != nil || info.Name != "signum" {
			t.Errorf("Describe = %+v, %v", info, err)
		}
		for _, r := range optimizertest.Conformance(t.Context(), p.Optimizer()) {
			if r.Err != nil {
				t.Errorf("%s: %s: %v", transport, r.Name, r.Err)
			}
		}
	}
}
