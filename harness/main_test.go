package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"harness": main})
}

// TestScripts runs the command lines in testdata/script: real files, real subprocesses.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			root, err := filepath.Abs("..")
			if err != nil {
				return err
			}
			env.Setenv("ROOT", root)
			env.Setenv("GOMODCACHE", goEnv("GOMODCACHE"))
			env.Setenv("GOCACHE", goEnv("GOCACHE"))
			env.Setenv("GOFLAGS", "-mod=mod")
			env.Setenv("GOPROXY", "off")
			env.Setenv("HARNESS_REFERENCE", referenceFolder(root))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "reference":
				return referenceFolder("..") != "", nil
			case "linux":
				return runtime.GOOS == "linux", nil
			}
			return false, nil
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

func goEnv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return ""
	}
	return string(out[:len(out)-1])
}

// referenceFolder is the folder with the reference material that may lie beside a checkout; empty if there is none.
func referenceFolder(from string) string {
	dir, err := filepath.Abs(from)
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "shared", "golden")); err == nil {
			return filepath.Join(dir, "shared")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
