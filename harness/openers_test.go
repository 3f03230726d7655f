package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// openers are the files that open others without core/bounded, and why they may: nobody else wrote those.
var openers = map[string]string{
	"core/bounded/bounded.go":                 "the one way",
	"core/durable/durable.go":                 "folders to flush, and files just written",
	"core/durable/file.go":                    "files that are written; who appends checks that it is one",
	"core/machine/machinetest/machinetest.go": "tests",
	"core/plugin/python/python.go":            "a cache whose content is compared",
	"core/plugin/host/discover.go":            "folders of $PATH",
	"core/plugin/host/pinned.go":              "a new file",
	"core/dataset/pretraining/cut.go":         "a file that is written",
	"harness/catalog/program.go":              "a cache of its own",
	"harness/executor/local_linux.go":         "/proc and /sys",
	"harness/experiment/startcache.go":        "a cache of its own",
	"harness/skeleton/module.go":              "the source of the program",
	"harness/check_output.go":                 "a file that is written",
	"harness/processes/memory.go":             "/proc",
	"harness/fetch/download.go":               "a file that is written",
	"results/environment_linux.go":            "/proc and /sys",
}

// TestOpeners: whoever reads files that others wrote opens them with core/bounded.
func TestOpeners(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || strings.HasPrefix(n, "_") || strings.HasPrefix(n, ".") && n != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		file := strings.TrimPrefix(filepath.ToSlash(path), "../")
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name := s.Sel.Name
			if p, ok := s.X.(*ast.Ident); ok && p.Name == "os" && (name == "Open" || name == "ReadFile" || name == "OpenFile" || name == "DirFS") {
				seen[file] = true
				if _, ok := openers[file]; !ok {
					t.Errorf("%v: os.%s waits for a FIFO and reads without bound: want core/bounded", files.Position(s.Pos()), name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range openers {
		if !seen[file] {
			t.Errorf("%s opens no file any more: want it off the list", file)
		}
	}
}
