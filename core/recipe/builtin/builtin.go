// Package builtin holds the recipes that come with harness, as text. A recipe's name is the path of its file:
// nvidia/large-phase1. Files whose names begin with _ are parts for recipes to extend, not recipes.
package builtin

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.yaml */*.yaml */*/*.yaml
var files embed.FS

// Names lists all recipes, sorted.
func Names() []string {
	var names []string
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path.Base(name), "_") {
			names = append(names, strings.TrimSuffix(name, ".yaml"))
		}
		return err
	})
	if err != nil {
		panic("builtin: the embedded folder can't be read") // it is part of the program
	}
	slices.Sort(names) // the walk sorts folders before what follows their names
	return names
}

// Read returns the text of a recipe or a part.
func Read(name string) ([]byte, bool) {
	text, err := files.ReadFile(name + ".yaml")
	return text, err == nil
}
