package main

import (
	"slices"
	"testing"
)

// pythonExample is the optimizer in Python that docs/plugins.md shows.
const pythonExample = "core/plugin/python/testdata/harness-optimizer-signum"

// TestDocumentedPython holds the code in docs/plugins.md against the program that is tested.
func TestDocumentedPython(t *testing.T) {
	if !slices.ContainsFunc(blocks(t, "docs/plugins.md", "python"), func(b block) bool { return b.text == document(t, pythonExample) }) {
		t.Errorf("docs/plugins.md does not show %s as it is", pythonExample)
	}
}
