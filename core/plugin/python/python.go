// Package python embeds harness_plugin, the SDK for plugins in Python, and provides what programs that import it
// need to run: one file that holds a program together with the SDK, and an interpreter that has the modules it
// imports.
//
// Everything is in the harness binary. Files are written to the user's cache when first needed, under the hash of
// their contents.
package python

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/durable"
)

//go:embed harness_plugin/*.py harness_plugin/protocol.binpb harness_plugin/py.typed
var sdk embed.FS

// SDK is the folder that holds the package harness_plugin, as an entry of PYTHONPATH does.
func SDK() fs.FS { return sdk }

// Archive packs files into one file that Python can import from, and can run if there is a __main__.py among them.
// Equal files give equal bytes.
func Archive(files ...fs.FS) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		err := fs.WalkDir(f, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := fs.ReadFile(f, path)
			if err != nil {
				return err
			}
			// A fixed time, so that equal files give equal bytes: 1980 is the first year of the format.
			entry, err := w.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Store, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
			if err == nil {
				_, err = entry.Write(content)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Install writes an archive to the user's cache, unless it is there, and returns its path.
func Install(name string, archive []byte) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("python: no folder for %s: %w: set XDG_CACHE_HOME", name, err)
	}
	sum := sha256.Sum256(archive)
	path := filepath.Join(cache, "harness", "python", name+"-"+hex.EncodeToString(sum[:8])+".pyz")
	// The contents decide, not the name: a file that somebody changed must not run.
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, archive) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("python: %w: set XDG_CACHE_HOME to a folder that can be written", err)
	}
	return path, durable.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(archive)
		return err
	})
}

// Module is a module that a program imports, and the packages of Debian and of PyPI that provide it.
type Module struct{ Name, Debian, PyPI string }

// Modules are those that the SDK itself imports.
var Modules = []Module{
	{"grpc", "python3-grpcio", "grpcio"},
	{"google.protobuf", "python3-protobuf", "protobuf"},
	{"numpy", "python3-numpy", "numpy"},
}

// InterpreterVariable names the interpreter to use.
const InterpreterVariable = "HARNESS_PYTHON"

// ErrMissing is wrapped by the error for modules that no interpreter has.
var ErrMissing = errors.New("no Python has what it needs")

// Interpreter returns the path of the first interpreter that has the modules: the one that HARNESS_PYTHON names, or
// else python3 on $PATH or /usr/bin/python3, which a distribution's packages are made for. Modules are searched
// for, not imported.
func Interpreter(ctx context.Context, modules []Module) (string, error) {
	candidates := []string{os.Getenv(InterpreterVariable)}
	if candidates[0] == "" {
		candidates = []string{"python3", "/usr/bin/python3"}
	}
	var problems []string
	lacked := map[string]bool{}
	var seen []string
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s is not there", name))
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
		if slices.Contains(seen, path) {
			continue
		}
		seen = append(seen, path)
		missing, err := missing(ctx, path, modules)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %v", path, err))
		case len(missing) == 0:
			return path, nil
		default:
			problems = append(problems, fmt.Sprintf("%s has no %s", path, strings.Join(missing, ", ")))
			for _, m := range missing {
				lacked[m] = true
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	debian, pypi := []string{}, []string{}
	for _, m := range modules {
		if len(lacked) == 0 || lacked[m.Name] {
			debian, pypi = append(debian, m.Debian), append(pypi, m.PyPI)
		}
	}
	return "", fmt.Errorf("%w: %s; on Debian: apt-get install %s; elsewhere: pip install %s; %s names another interpreter",
		ErrMissing, strings.Join(problems, "; "), strings.Join(debian, " "), strings.Join(pypi, " "), InterpreterVariable)
}

// SearchPath is the user's PYTHONPATH with more folders after it. Empty entries are left out: Python takes each for the
// working folder, and would import whatever lies there.
func SearchPath(more ...string) string {
	folders := append(filepath.SplitList(os.Getenv("PYTHONPATH")), more...)
	folders = slices.DeleteFunc(folders, func(f string) bool { return f == "" })
	return strings.Join(folders, string(filepath.ListSeparator))
}

// probe prints those of its arguments that are not installed modules. `python3 -c` puts the working folder first on
// sys.path, where a stranger's google/__init__.py or contextlib.py would be executed, so it is removed before the first
// import from a file. -I would do that too, but would also hide PYTHONPATH and the user's own packages; -P and
// PYTHONSAFEPATH are only known to Python 3.11 and later.
const probe = `
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import importlib.util
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
print(*[name for name in sys.argv[1:] if not there(name)])
`

// missing asks an interpreter which modules it lacks.
func missing(ctx context.Context, interpreter string, modules []Module) ([]string, error) {
	args := []string{"-c", probe}
	for _, m := range modules {
		args = append(args, m.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+SearchPath()) // the later value of a variable counts
	cmd.WaitDelay = time.Second                                // a child of a killed interpreter may hold its output open
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("it does not run: %w", err)
	}
	return strings.Fields(string(out)), nil
}
