package plugin_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestNoHostInPlugins lists what the example of a third party's plugin links: its whole main is a call of
// ServeOptimizer, and nothing of the host may come with it, neither the code that finds and starts plugins nor what
// harness stores results with.
func TestNoHostInPlugins(t *testing.T) {
	const example = "testdata/example-optimizer/main.go" // as a file: its module is a third party's, with a go.sum yet to be written
	list := func(args ...string) []string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	linked := list("-deps", example)
	if !slices.Contains(linked, "harness.invalid/core/plugin") {
		t.Fatalf("%d packages, and core/plugin is not one of them", len(linked))
	}
	for _, path := range linked {
		for _, unwanted := range []string{
			"harness.invalid/core/plugin/host", "harness.invalid/harness", "harness.invalid/results", "harness.invalid/plugins",
			"harness.invalid/core/durable", "database/sql", "modernc.org", "github.com/spf13",
		} {
			if path == unwanted || strings.HasPrefix(path, unwanted+"/") {
				t.Errorf("a plugin links %s", path)
			}
		}
	}
	// go-plugin is one package for both ends, so its own use of os/exec is unavoidable. This module's packages start
	// nothing.
	for _, line := range list("-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, example) {
		path, imports, _ := strings.Cut(line, " ")
		if strings.HasPrefix(path, "harness.invalid/") && slices.Contains(strings.Fields(imports), "os/exec") {
			t.Errorf("%s, which a plugin links, imports os/exec", path)
		}
	}
}
