package emulator

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/spelling"
)

//go:embed policies/*.yaml
var policies embed.FS

// PolicyNames lists the policies for training in narrow formats that come with the program, sorted. They belong to no
// backend: one that reads policies takes any of them.
func PolicyNames() []string {
	entries, err := policies.ReadDir("policies")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// PolicyText is one of them as written, for ParsePolicy.
func PolicyText(name string) ([]byte, error) {
	names := PolicyNames()
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("no policy is named %q%s (known: %s)", name, spelling.Hint(name, names), strings.Join(names, ", "))
	}
	return policies.ReadFile("policies/" + name + ".yaml")
}
