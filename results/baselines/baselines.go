// Package baselines holds the reviewed baselines that `harness check` knows by name. A baseline changes in a commit
// of its own, which says what moved it.
package baselines

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"harness.invalid/results/regression"
)

//go:embed *.json
var files embed.FS

// Open reads a baseline by name.
func Open(name string) (*regression.Baseline, error) {
	text, err := files.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no baseline is named %q (known: %s): %w", name, strings.Join(Names(), ", "), fs.ErrNotExist)
	}
	return regression.ReadBaseline(name, text)
}

// Names lists the baselines.
func Names() []string {
	found, err := fs.Glob(files, "*.json")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, f := range found {
		found[i] = strings.TrimSuffix(path.Base(f), ".json")
	}
	return found
}
