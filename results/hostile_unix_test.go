//go:build unix

package results

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"harness.invalid/core/bounded"
	"harness.invalid/core/filename"
)

// TestHostileFiles: whatever takes the place of a file of a run, reading it ends soon, with an error.
func TestHostileFiles(t *testing.T) {
	r := quick(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(dir string) error {
		run, err := Open(dir)
		if err != nil {
			return err
		}
		for _, err := range run.Steps() {
			if err != nil {
				return err
			}
		}
		for _, err := range run.Evaluations() {
			if err != nil {
				return err
			}
		}
		_, tags := run.Tags()
		_, scores := run.Scores("squad", nil)
		_, given := run.Answers("squad", Examples[string]{})
		return errors.Join(tags, scores, given)
	}
	for what, put := range map[string]func(path string) error{
		"a FIFO":          func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"a device":        func(path string) error { return os.Symlink("/dev/zero", path) },
		"a folder":        func(path string) error { return os.Mkdir(path, 0o777) },
		"a link out":      func(path string) error { return os.Symlink(secret, path) },
		"a huge file":     func(path string) error { return sparse(path, 20<<30) },
		"a line of a GiB": func(path string) error { return sparse(path, 1<<30) },
	} {
		for _, name := range []string{runFile, environmentFile, recipeFile, resultFile, stepsFile, evaluationsFile, tagsFile,
			ScoresFile("squad"), PredictionsFile("squad")} {
			dir := t.TempDir()
			w, err := Create(dir, identity(r), r, Environment{})
			if err == nil {
				err = w.Close()
			}
			path := filepath.Join(dir, name)
			_ = os.Remove(path) // some are not there
			if err = errors.Join(err, put(path)); err != nil {
				t.Fatal(err)
			}
			if err := read(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s as %s: %v", what, name, err)
			}
		}
	}
}

// sparse makes a file that has no data, and no line.
func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// TestResumeHostile: a lock or a record that is a FIFO does not hang whoever resumes the run.
func TestResumeHostile(t *testing.T) {
	r := quick(t)
	for _, name := range []string{lockFile, stepsFile} {
		dir := t.TempDir()
		w, err := Create(dir, identity(r), r, Environment{})
		if err == nil {
			err = errors.Join(w.Close(), os.Remove(filepath.Join(dir, name)), syscall.Mkfifo(filepath.Join(dir, name), 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
		if w, err := Resume(dir, Mark{}); err == nil {
			t.Errorf("a FIFO as %s is resumed: %v", name, w.Close())
		}
	}
}

// TestHostileNames: names in a stranger's run.json become parts of paths.
func TestHostileNames(t *testing.T) {
	r := quick(t)
	for name, change := range map[string]func(id *Identity){
		"backend":          func(id *Identity) { id.Backend = "../../escape" },
		"absolute backend": func(id *Identity) { id.Backend = "/tmp/escape" },
		"control":          func(id *Identity) { id.Backend = "ipu\x1b[2J" },
		"optimizer":        func(id *Identity) { id.Optimizer = "a/../../../b" },
		"recipe":           func(id *Identity) { id.Recipe = "../../../results/baselines/quick" },
		"windows":          func(id *Identity) { id.Backend = `..\..\escape` },
		"long":             func(id *Identity) { id.Optimizer = strings.Repeat("x", 300) },
	} {
		id := identity(r)
		change(&id)
		dir := t.TempDir()
		w, err := Create(dir, id, r, Environment{})
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); !errors.Is(err, filename.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongLine: a line may be long, not endless.
func TestLongLine(t *testing.T) {
	r := quick(t)
	dir := t.TempDir()
	w, err := Create(dir, identity(r), r, Environment{})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]error{mostLine - 100: nil, mostLine + 1: bounded.ErrTooLarge} {
		line := `{"phase":"` + strings.Repeat("x", size) + `"}` + "\n"
		if err := os.WriteFile(filepath.Join(dir, stepsFile), []byte(line), 0o666); err != nil {
			t.Fatal(err)
		}
		run, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for s, err := range run.Steps() {
			if !errors.Is(err, want) || err == nil && len(s.Phase) != size {
				t.Errorf("a line of %d bytes: %v", size, err)
			}
		}
	}
}
