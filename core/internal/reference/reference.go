// Package reference finds reference material for tests: golden vectors of independent programs, and real data. A name
// goes in, a path comes out.
//
// The full material may lie beside a checkout, in a folder shared. Excerpts of it are in testdata, under the same
// names, so that every checkout has a judge of each kind.
package reference

import (
	"os"
	"path/filepath"
	"testing"
)

// excerpts is the folder of the excerpts, from the root of the checkout.
const excerpts = "core/internal/reference/testdata"

// Path returns the path of ELEM... in the full material, and skips the test where that is absent.
//
// The full material is the nearest folder shared beside or above the checkout, or HARNESS_REFERENCE where that is
// set.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	path := full(t, name)
	if path == "" {
		t.Skipf("reference material %s is not beside the checkout: skipped", name)
	}
	return path
}

// PathOrExcerpt returns the path of ELEM... in the full material or, where that is absent, that of its excerpt. A
// file without an excerpt is an error.
func PathOrExcerpt(t testing.TB, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	if path := full(t, name); path != "" {
		return path
	}
	path := above(t, filepath.Join(filepath.FromSlash(excerpts), name))
	if path == "" {
		t.Fatalf("%s has no %s", excerpts, name)
	}
	t.Logf("reference material %s is not beside the checkout: its excerpt is used", name)
	return path
}

// full is the path of a file of the full material, "" where it is absent.
func full(t testing.TB, name string) string {
	t.Helper()
	root, set := os.LookupEnv("HARNESS_REFERENCE")
	if !set || root == "" {
		return above(t, filepath.Join("shared", name))
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// above is the path of a file in the nearest folder, from the working directory up, that has it; "" if none has.
func above(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
