// Package baselines holds the reviewed baselines that `harness check` knows by name. A baseline changes in a commit
// of its own, which says what moved it.
package baselines

import (
	"embed"
	"errors"
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

// OpenAny reads the file of a baseline or, where there is none and name could be one of a baseline, the baseline of
// that name.
func OpenAny(name string) (*regression.Baseline, error) {
	b, err := regression.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "/\\.") {
		return Open(name)
	}
	return b, err
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
