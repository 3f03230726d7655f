// Sbom prints what a Go binary is made of, as CycloneDX 1.6 in JSON: what `go version -m` shows, for tools that look for
// known vulnerabilities.
//
//	go run ./.ci/sbom BINARY > sbom.cdx.json
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	program := of("application", &info.Main)
	for _, s := range info.Settings {
		program.Properties = append(program.Properties, property{"go:build:" + s.Key, s.Value})
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	std := component{Type: "library", Name: "std", Version: version, PURL: "pkg:golang/std@" + version}
	std.Ref = std.PURL
	components := []component{std}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, of("library", m))
	}
	all := dependency{Ref: program.Ref}
	for _, c := range components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": map[string]any{"component": program},
		"components": components, "dependencies": []dependency{all},
	})
}

// of describes a module. Its sum is Go's, of the names and sums of its files, and no hash of one file.
func of(kind string, m *debug.Module) component {
	version := cmp.Or(m.Version, "(devel)")
	c := component{Type: kind, Name: m.Path, Version: version, PURL: "pkg:golang/" + m.Path + "@" + version}
	c.Ref = c.PURL
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}
