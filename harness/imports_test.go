package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "harness.invalid/"

// layers are the rules of imports: code under a folder may import of this module only what one of its prefixes
// allows; =FOLDER allows that package and none below it. The first folder that matches decides. Tests may reach
// further, generators are modules of their own.
var layers = []struct {
	folder string
	allow  []string
	deny   []string
}{
	{"core/tensor", nil, nil},
	{"core/random", nil, nil},
	{"core/spelling", nil, nil},
	{"core/bounded", nil, nil},
	{"core/fault", nil, nil},
	{"core/durable", []string{"core/fault"}, nil},
	{"core/filename", nil, nil},
	{"core/secret", nil, nil},
	{"core/option", []string{"core/spelling"}, nil},
	{"core/numerics", []string{"core/random"}, nil},
	{"core/kernels", []string{"core/numerics", "core/random"}, nil},
	{"core/bert", []string{"core/tensor", "core/random"}, nil},
	{"core/checkpoint/weights", []string{"core/tensor", "core/spelling", "core/bounded"}, nil},
	{"core/plugin/host", []string{"core"}, nil},
	{"core/plugin", []string{"core"}, []string{"core/plugin/host"}}, // no code of the host in a plugin's binary
	{"core", []string{"core"}, []string{"core/plugin"}},
	{"plugins", []string{"core", "plugins"}, []string{"core/plugin"}},
	// Records of runs know nothing of what is concluded from them; statistics know numbers alone.
	{"results/index", []string{"core/recipe", "core/bounded", "core/spelling", "core/secret", "=results"}, nil},
	{"results/statistics", []string{"=results"}, nil},
	{"results/verdict", []string{"core/recipe", "core/spelling", "=results", "results/statistics"}, nil},
	{"results/regression", []string{"core/recipe", "core/durable", "core/bounded", "core/jsonerror", "=results",
		"results/statistics", "results/verdict"}, nil},
	{"results/scoring", []string{"=results", "results/statistics", "results/verdict"}, nil},
	{"results/baselines", []string{"results/regression"}, nil},
	{"results", []string{"core/recipe", "core/durable", "core/bounded", "core/filename", "core/jsonerror"}, []string{"results/index",
		"results/statistics", "results/verdict", "results/regression", "results/scoring", "results/baselines"}},
	{"harness/catalog", []string{"core", "plugins"}, nil}, // all other packages know a plugin only by its name
	{"harness", []string{"core", "results", "harness"}, nil},
}

// TestImports checks the layers: imports go down, only core/plugin speaks gRPC, only package main
// has a command line, only the catalog knows plugins, and a plugin knows no other one.
func TestImports(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || strings.HasPrefix(n, "_") || strings.HasPrefix(n, ".") && n != ".." {
				return filepath.SkipDir
			}
			switch d.Name() {
			case "util", "utils", "common", "helper", "helpers", "base", "types", "shared", "misc":
				t.Errorf("%s: a package is named by what it provides", path)
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		seen++
		file := strings.TrimPrefix(path, "../")
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, file, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d files were looked at: is the test in the right folder?", seen)
	}
}

func checkImport(t *testing.T, file, path string) {
	t.Helper()
	if path == "google.golang.org/protobuf/encoding/protowire" && within(file, "core/checkpoint/tensorflow") {
		return // the encoding of TensorFlow's index, which nobody sends
	}
	if wire := strings.HasPrefix(path, "google.golang.org/grpc") || strings.HasPrefix(path, "google.golang.org/protobuf") ||
		strings.HasPrefix(path, "github.com/hashicorp/go-plugin"); wire && !within(file, "core/plugin") {
		t.Errorf("%s imports %s: only core/plugin speaks the wire", file, path)
	}
	if command := strings.HasPrefix(path, "github.com/spf13/") || strings.HasPrefix(path, "github.com/vbauerster/mpb") ||
		path == "golang.org/x/term"; command && filepath.ToSlash(filepath.Dir(file)) != "harness" {
		t.Errorf("%s imports %s: only package main knows a command line or a terminal", file, path)
	}
	local, ok := strings.CutPrefix(path, module)
	if !ok {
		return
	}
	if local == "core/internal/reference" {
		t.Errorf("%s imports %s: it is for tests", file, path)
	}
	for _, l := range layers {
		if !within(file, l.folder) {
			continue
		}
		allowed := within(local, filepath.ToSlash(filepath.Dir(file)))
		for _, a := range l.allow {
			only, alone := strings.CutPrefix(a, "=")
			allowed = allowed || alone && local == only || !alone && within(local, a)
		}
		for _, d := range l.deny {
			if within(local, d) && !within(file, d) {
				allowed = false
			}
		}
		if l.folder == "plugins" && within(local, "plugins") && !within(local, pluginOf(file)) {
			allowed = false
		}
		if !allowed {
			t.Errorf("%s imports %s: %s may import %v, not %v", file, path, l.folder, l.allow, l.deny)
		}
		return
	}
	t.Errorf("%s lies outside of the fixed top level", file)
}

// pluginOf is the folder of the plugin that a file belongs to, such as plugins/ipu or plugins/optimizers/lamb.
func pluginOf(file string) string {
	parts, depth := strings.Split(file, "/"), 2
	if parts[1] == "optimizers" {
		depth = 3
	}
	return strings.Join(parts[:depth], "/")
}

// within reports whether path is folder or lies under it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
