// Package reference finds the reference material (golden vectors, real data) that may lie beside a checkout: a name
// goes in, a path comes out. Where it is absent, the tests that use it are skipped.
package reference

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of shared/ELEM... in the nearest parent folder that has it, and skips the test if none has.
// HARNESS_REFERENCE, if set, is used in place of shared.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	if root := os.Getenv("HARNESS_REFERENCE"); root != "" {
		return filepath.Join(root, name)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		path := filepath.Join(dir, "shared", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Skipf("reference material %s is not beside the checkout: skipped", name)
		}
		dir = parent
	}
}
