package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The programs that docs/plugins.md shows.
const (
	optimizerExample = "core/plugin/testdata/example-optimizer"
	backendExample   = "docs/testdata/example-backend"
)

// scratch is a folder for what several tests use. TestMain removes it.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "harness-test") })

// tests runs all tests and removes scratch.
type tests struct{ *testing.M }

// Run runs more tests at a time than there are CPUs, since they wait for processes and disks.
func (t tests) Run() int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	defer func() {
		if dir, err := scratch(); err == nil {
			os.RemoveAll(dir)
		}
	}()
	return t.M.Run()
}

// examplePlugins is a folder plugins with the plugins that docs/plugins.md shows, built once. The optimizer is a module
// of its own with one replace line; its go.mod and go.sum are completed elsewhere, not in the tree.
var examplePlugins = sync.OnceValues(func() (string, error) {
	dir, err := scratch()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(dir, "plugins")
	build := func(source, name string, args ...string) error {
		cmd := exec.Command("go", append(append([]string{"build", "-o", filepath.Join(folder, name)}, args...), ".")...)
		cmd.Dir = filepath.Join("..", filepath.FromSlash(source))
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+quickLink)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		return nil
	}
	mod := filepath.Join(dir, "go.mod")
	for to, from := range map[string]string{mod: optimizerExample + "/go.mod", strings.TrimSuffix(mod, "mod") + "sum": "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(from)))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(to, text, 0o666); err != nil {
			return "", err
		}
	}
	if err := build(optimizerExample, "harness-optimizer-signum", "-modfile="+mod, "-mod=mod"); err != nil {
		return "", err
	}
	return folder, build(backendExample, "harness-backend-bf16-only")
})

// useExamples is a command of scripts: plugins are searched for among those of docs/plugins.md.
func useExamples(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := examplePlugins()
	ts.Check(err)
	ts.Setenv("HARNESS_PLUGIN_PATH", dir)
}

// TestDocumentedPlugins holds the code in docs/plugins.md against the programs that are built and tested.
func TestDocumentedPlugins(t *testing.T) {
	shown := blocks(t, "docs/plugins.md", "go")
	for _, example := range []string{optimizerExample, backendExample} {
		source := document(t, example+"/main.go")
		code := source[strings.Index(source, "func main()"):]
		if !slices.ContainsFunc(shown, func(b block) bool { return b.text == code }) {
			t.Errorf("docs/plugins.md does not show %s/main.go from func main on as it is", example)
		}
	}
}
