package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"harness.invalid/core/emulator"
	"harness.invalid/core/format"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/dispatch"
)

// documents are the files whose examples are held against the program, in the order in which a reader runs them.
var documents = []string{
	"README.md", "docs/README.md", "docs/recipes.md", "docs/data.md", "docs/tasks.md", "docs/inference.md", "docs/execution.md",
	"docs/machines.md", "docs/plugins.md", "docs/ten-minutes.md", "docs/results.md", "docs/plugin-protocol.md",
	"docs/checkpoints.md", "docs/reports.md", "docs/performance.md", "docs/design.md", "docs/formats.md", "docs/clusters.md",
	"harness/doc.go",
}

// document reads one of them.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is an example of a document.
type block struct {
	where string // FILE:LINE of its first line
	text  string
}

// blocks are the fenced blocks of a language in a Markdown file.
func blocks(t *testing.T, name, language string) []block {
	t.Helper()
	var found []block
	inside, wanted := false, false
	for i, line := range strings.SplitAfter(document(t, name), "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence:
			inside = !inside
			if wanted = inside && fence == language; wanted {
				found = append(found, block{where: fmt.Sprintf("%s:%d", name, i+2)})
			}
		case wanted:
			found[len(found)-1].text += line
		}
	}
	if inside {
		t.Errorf("%s: a fenced block has no end", name)
	}
	return found
}

// exampleRecipe is the first recipe in docs/recipes.md, which the documents call my.yaml.
func exampleRecipe(t *testing.T) string {
	t.Helper()
	found := blocks(t, "docs/recipes.md", "yaml")
	if len(found) == 0 {
		t.Fatal("docs/recipes.md has no recipe")
	}
	return found[0].text
}

// TestDocumentedRecipes loads every recipe and number format in the documents. Parts of a recipe are those of one that
// extends quick.
func TestDocumentedRecipes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("first.yaml", "extends: quick\nstart:\n") // which docs/recipes.md names
	for _, name := range documents {
		for _, b := range blocks(t, name, "yaml") {
			text := b.text
			if name == "docs/formats.md" {
				_, err := format.Parse("shown", []byte(text))
				if strings.Contains(text, "\nproducts:") {
					_, err = emulator.ParsePolicy("shown", []byte(text))
				}
				if err != nil {
					t.Errorf("%s: %v", b.where, err)
				}
				continue
			}
			if name == "docs/clusters.md" {
				if err := new(dispatch.Scheduler).Read(write("slurm.yaml", text)); err != nil {
					t.Errorf("%s: %v", b.where, err)
				}
				continue
			}
			if !wholeRecipe.MatchString(text) {
				text = "extends: quick\n" + text
			}
			if _, err := recipe.Load(write("shown.yaml", text)); err != nil {
				t.Errorf("%s: %v", b.where, err)
			}
		}
	}
}

// wholeRecipe is what a recipe has at its beginning or where its phases are.
var wholeRecipe = regexp.MustCompile(`(?m)^(extends|phases):`)

// TestDocumentedLinks follows all links of the documents that lead into the tree.
func TestDocumentedLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, name := range documents {
		for _, m := range link.FindAllStringSubmatch(document(t, name), -1) {
			target := filepath.Join("..", filepath.Dir(filepath.FromSlash(name)), filepath.FromSlash(m[1]))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			}
		}
	}
}
