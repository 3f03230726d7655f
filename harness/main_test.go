package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/plugin/python"
	"harness.invalid/harness/catalog"
)

// programVariable makes the test binary be the program. It is handed to plugins, so the binary that the host starts
// again as a plugin is the program as well, and its value marks all processes of one test.
const programVariable = "HARNESS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		hold()
		main()
		return
	}
	os.Setenv(host.PassVariable, programVariable)
	// A program with the race detector sleeps a second before it ends, and these tests end hundreds.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	testscript.Main(tests{m}, map[string]func(){"harness": main})
}

// quickLink leaves out what debuggers read, which takes half of the time that a program takes to link, and the state of
// the repository, which takes several runs of git.
const quickLink = "-ldflags=-s -buildvcs=false"

// excerpts is the folder with the excerpts of the reference material.
const excerpts = "core/internal/reference/testdata"

// TestScripts runs the command lines in testdata/script: real files, real subprocesses.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:         "testdata/script",
		WorkdirRoot: t.TempDir(), // testscript's own stays behind when -run selects some scripts
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, quickly()...)
			for name, value := range map[string]string{
				"ROOT":   root,
				"MINI":   filepath.Join(root, "harness", "testdata", "mini.yaml"),
				"GOLDEN": filepath.Join(root, excerpts, "golden"),
				"DATA":   filepath.Join(root, excerpts, "data"),
				"HOME":   env.WorkDir,
				// For scripts that build a plugin: from what building the tests has fetched, and nothing else.
				"GOMODCACHE": goEnv("GOMODCACHE"),
				"GOCACHE":    goEnv("GOCACHE"),
				"GOFLAGS":    "-mod=mod " + quickLink,
				"GOPROXY":    "off",
				"GOWORK":     "off",
				"GORACE":     os.Getenv("GORACE"),
			} {
				env.Setenv(name, value)
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "python":
				_, err := anyPython()
				return err == nil, nil
			case "torch":
				return torchPython() != "", nil
			}
			return false, nil
		},
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "examples": useExamples},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// quickly is the environment of short-lived processes. Many run at once, and their steps are too small for two
// threads, so each has one, and collects garbage rarely. An interpreter that has all modules is named, since a search
// starts several (torch.txtar searches). They share a cache, so that the program's hash is computed once.
func quickly() []string {
	env := []string{"GOMAXPROCS=1", "GOGC=400"}
	if dir, err := scratch(); err == nil {
		env = append(env, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	}
	if interpreter := torchPython(); interpreter != "" {
		env = append(env, python.InterpreterVariable+"="+interpreter)
	}
	return env
}

// torchPython is an interpreter that has PyTorch and all else that plugins in Python import, empty if there is none.
var torchPython = sync.OnceValue(func() string {
	e, err := catalog.Find(plugin.Backend, "torch")
	if err != nil {
		return ""
	}
	return e.Path
})

// anyPython is an interpreter that has what plugins in Python import.
var anyPython = sync.OnceValues(func() (string, error) { return python.Interpreter(context.Background(), python.Modules) })

// exits runs a program and holds its exit code: exits CODE PROGRAM ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// goEnv is a setting of the go command, asked for once.
func goEnv(name string) string { return goSettings()[name] }

var goSettings = sync.OnceValue(func() map[string]string {
	settings := map[string]string{}
	if out, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOCACHE").Output(); err == nil {
		_ = json.Unmarshal(out, &settings)
	}
	return settings
})
