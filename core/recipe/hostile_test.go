package recipe_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/recipe"
)

// TestHostileText: texts that the YAML library takes gigabytes or minutes for are refused before it sees them.
func TestHostileText(t *testing.T) {
	var keys strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for name, text := range map[string]string{
		"a million brackets": "doc: " + strings.Repeat("[", 1_000_000),
		"brackets":           "doc: " + strings.Repeat("[", 200_000),
		"objects":            "doc: " + strings.Repeat("{a: ", 50_000),
		"dashes":             strings.Repeat("- ", 100_000),
		"tags":               "doc: " + strings.Repeat("!x ", 50_000),
		"anchors":            "doc: " + strings.Repeat("&x ", 50_000),
		"colons":             strings.Repeat("a: ", 50_000),
		"items":              "doc: [" + strings.Repeat("1,", 100_000) + "]",
		"blank lines":        "doc: |\n" + strings.Repeat("\n", 200_000),
		"a long key":         strings.Repeat("k", 5_000_000) + ": 1",
		"a key of 4 KB":      strings.Repeat("k", 4_000) + ": 1",
		"many keys":          keys.String(),
		"indentation":        strings.Repeat(" ", 1000) + "a: 1",
	} {
		_, err := recipe.Parse(name, []byte(text))
		if err == nil {
			t.Errorf("%s: taken", name)
		} else if n := len(err.Error()); n > 1<<10 {
			t.Errorf("%s: an error of %d bytes: %.200s", name, n, err)
		}
	}
}

// TestFanOut: recipes that extend twelve others each, which do so too, are 12¹² in all.
func TestFanOut(t *testing.T) {
	dir := t.TempDir()
	for i := range 12 {
		next := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("./r%d.yaml, ", i+1), 12), ", ")
		write(t, filepath.Join(dir, fmt.Sprintf("r%d.yaml", i)), "extends: ["+next+"]\n")
	}
	write(t, filepath.Join(dir, "r12.yaml"), "extends: quick\n")
	if _, err := recipe.Load(filepath.Join(dir, "r0.yaml")); err == nil || !strings.Contains(err.Error(), "want at most 64") {
		t.Errorf("%v", err)
	}
}

// TestSecretsStayOut: a stranger's recipe names files of its reader. Errors about those show none of their lines, also if
// a link in the stranger's folder leads there.
func TestSecretsStayOut(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	write(t, secret, "root:$6$hash:19000\nadmin:$6$other:19000\n")
	keys := filepath.Join(filepath.Dir(secret), "keys.yaml")
	write(t, keys, "name: quick\nsteps: $6$hash\n")
	dir := t.TempDir()
	link := filepath.Join(dir, "base.yaml")
	if err := os.Symlink(secret, link); err != nil {
		t.Skip(err)
	}
	for _, ref := range []string{secret, keys, "./base.yaml"} {
		path := filepath.Join(dir, "recipe.yaml")
		write(t, path, "extends: "+ref+"\n")
		_, err := recipe.Load(path)
		if err == nil || strings.Contains(err.Error(), "$6$") {
			t.Errorf("extends %s: %v", ref, err)
		}
	}
	// What is the author's own is shown.
	write(t, filepath.Join(dir, "mine.yaml"), "extends: quick\nstepps: 3\n")
	write(t, filepath.Join(dir, "recipe.yaml"), "extends: ./mine.yaml\n")
	if _, err := recipe.Load(filepath.Join(dir, "recipe.yaml")); err == nil || !strings.Contains(err.Error(), "2 | stepps: 3") {
		t.Errorf("an error without its line: %v", err)
	}
}

// TestRecordedRecipeExtendsNone: the recipe that a run recorded is complete, and no other file is opened for it.
func TestRecordedRecipeExtendsNone(t *testing.T) {
	for _, text := range []string{"extends: quick\n", "extends: [/etc/passwd]\n", "name: x\nextends: ../secret.yaml\n"} {
		if _, err := recipe.ParseResolved("recipe.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "extends none") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNamesOfFiles: names in a recipe become parts of paths.
func TestNamesOfFiles(t *testing.T) {
	for _, text := range []string{
		"name: ../../escape", "name: /tmp/x", `name: "a\nb"`, `name: "\e]0;x\a"`, "name: a//b",
	} {
		if _, err := recipe.Parse("x", []byte("extends: quick\n"+text+"\n")); err == nil || !strings.Contains(err.Error(), "not a file name") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, name := range []string{"../x", "a/b", `"x\e[31m"`, "..", `'a\b'`} {
		text := "extends: quick\nphases:\n  - {name: " + name + ", steps: 1}\n"
		if _, err := recipe.Parse("x", []byte(text)); err == nil || !strings.Contains(err.Error(), "not a file name") {
			t.Errorf("phase %s: %v", name, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
