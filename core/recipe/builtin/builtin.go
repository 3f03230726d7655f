// Package builtin holds the recipes that come with harness, as text. A recipe is named as its file.
package builtin

import (
	"embed"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names are the names of all recipes, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("builtin: the embedded folder can't be read") // it is part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Read returns the text of a recipe.
func Read(name string) ([]byte, bool) {
	text, err := files.ReadFile(name + ".yaml")
	return text, err == nil
}
