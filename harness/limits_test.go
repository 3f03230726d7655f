package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a reader takes in at one go. Generated files are exempt, and so is testdata.
const (
	mostFileLines     = 400
	mostFunctionLines = 80
	mostLineWidth     = 140 // characters; a tab is one
	mostProseWidth    = 110 // of Markdown outside of tables, code and links that fill a line
)

// TestLimits holds the sizes of files and functions and the lengths of lines.
func TestLimits(t *testing.T) {
	code := []string{".go", ".py", ".js", ".css", ".html", ".proto", ".sh"}
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || n == "runs" || n == "bin" || strings.HasPrefix(n, ".") && n != ".." && n != ".ci" {
				return filepath.SkipDir
			}
			return nil
		}
		extension := filepath.Ext(path)
		if extension != ".md" && !slices.Contains(code, extension) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		if extension == ".md" {
			checkProse(t, path, string(text))
			return nil
		}
		if head, _, _ := strings.Cut(string(text), "\npackage "); strings.Contains(head, "DO NOT EDIT") {
			return nil
		}
		checkCode(t, path, string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d files were looked at: is the test in the right folder?", seen)
	}
}

func checkCode(t *testing.T, path, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > mostFileLines {
		t.Errorf("%s has %d lines, want at most %d", path, len(lines), mostFileLines)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > mostLineWidth {
			t.Errorf("%s:%d: %d characters, want at most %d", path, i+1, n, mostLineWidth)
		}
	}
	if filepath.Ext(path) != ".go" {
		return
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if n := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1; n > mostFunctionLines {
				t.Errorf("%s: %s has %d lines, want at most %d", path, fn.Name.Name, n, mostFunctionLines)
			}
		}
	}
}

func checkProse(t *testing.T, path, text string) {
	t.Helper()
	code := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			code = !code
			continue
		}
		if code || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(line, "    ") || !strings.Contains(trimmed, " ") {
			continue
		}
		if n := utf8.RuneCountInString(line); n > mostProseWidth {
			t.Errorf("%s:%d: %d characters of prose, want at most %d", path, i+1, n, mostProseWidth)
		}
	}
}
