package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestControlCharacters: texts of files that others wrote do not act on the terminal that errors are shown on.
func TestControlCharacters(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"recipe.yaml":  "extends: quick\n\x1b]0;title\a\x1b[2Jstepps: 1\n",
		"escaped.yaml": "extends: quick\n\"\\e[2J\\u202e\\x9b\": 1\n",
		"name.yaml":    "extends: quick\nname: \"\\e[2J\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		var out, errOut strings.Builder
		if code := execute([]string{"recipe", "show", path}, strings.NewReader(""), &out, &errOut); code != exitError {
			t.Errorf("%s: exit code %d", name, code)
		}
		if shown := errOut.String(); strings.ContainsAny(shown, "\x1b\a\u202e\u009b") || !strings.Contains(shown, `\x1b`) {
			t.Errorf("%s: %q", name, shown)
		}
	}
}

// TestPrinter: what a terminal gets has the colours of tables and no other sequence.
func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out, "\x1b[32m", "\x1b[0m")
	if _, err := p.Write([]byte("\x1b[32mgood\x1b[0m \x1b[3J\n")); err != nil || out.String() != "\x1b[32mgood\x1b[0m \\x1b[3J\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if terminalOf(p) != nil || width(p) != 0 || color(p) {
		t.Error("a text is taken for a terminal")
	}
}
