package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"harness.invalid/core/plugin"
)

// Found is an executable with the name of a plugin.
type Found struct {
	Kind plugin.Kind
	Name string
	Path string
	// Folder is what the plugin consists of when it is more than its executable: a folder of the same name around it. Else it is empty.
	Folder string
	// Problem says why it can't be used, "" when it can: it is not executable, its name is not allowed, or another one shadows it.
	Problem string
}

// Files is what the plugin consists of: its folder or its executable. It is what Hash and Pin take.
func (f Found) Files() string {
	if f.Folder != "" {
		return f.Folder
	}
	return f.Path
}

// Pinned reports whether a file pins the plugin.
func (f Found) Pinned() bool {
	_, err := os.Stat(f.Files() + PinSuffix)
	return err == nil
}

// SearchPath is where plugins of third parties are looked for, in this order: the folders of $HARNESS_PLUGIN_PATH, the user's folder for
// plugins, and $PATH.
func SearchPath() []string {
	folders := filepath.SplitList(os.Getenv("HARNESS_PLUGIN_PATH"))
	if own, err := UserFolder(); err == nil {
		folders = append(folders, own)
	}
	return append(folders, filepath.SplitList(os.Getenv("PATH"))...)
}

// UserFolder is the folder for a user's own plugins.
func UserFolder() (string, error) {
	config, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(config, "harness", "plugins"), nil
}

// Discover lists executables named harness-backend-NAME and harness-optimizer-NAME (with .exe on Windows) in folders, and folders of such a name with an
// executable of the same name in them, those that can't be used too, each with its reason. The first usable one of a name counts. Folders that don't exist, or are named twice, are skipped; one that can't be
// read is an error, together with what the others have.
func Discover(folders []string) ([]Found, error) {
	var found []Found
	var errs []error
	var seen []string
	for _, folder := range folders {
		if folder == "" || slices.Contains(seen, filepath.Clean(folder)) {
			continue
		}
		seen = append(seen, filepath.Clean(folder))
		entries, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugins: %w", err))
			continue
		}
		for _, e := range entries {
			if f, ok := At(filepath.Join(folder, e.Name())); ok {
				f.Problem = problem(f, found)
				found = append(found, f)
			}
		}
	}
	return found, errors.Join(errs...)
}

// At takes the name of a plugin's executable or folder apart. It does not say whether the plugin can be used.
func At(path string) (Found, bool) {
	base := filepath.Base(path)
	if runtime.GOOS == "windows" {
		base = strings.ToLower(base)
	}
	for _, kind := range []plugin.Kind{plugin.Backend, plugin.Optimizer} {
		name, ok := strings.CutPrefix(base, "harness-"+string(kind)+"-")
		if !ok || strings.HasSuffix(name, PinSuffix) {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return Found{Kind: kind, Name: name, Path: filepath.Join(path, Executable(kind, name)), Folder: path}, true
		}
		if runtime.GOOS == "windows" {
			name, ok = strings.CutSuffix(name, executableSuffix)
		}
		return Found{Kind: kind, Name: name, Path: path}, ok
	}
	return Found{}, false
}

// executableSuffix is behind the names of programs on Windows.
const executableSuffix = ".exe"

// Executable is the name under which a plugin's executable is found.
func Executable(k plugin.Kind, name string) string {
	file := "harness-" + string(k) + "-" + name
	if runtime.GOOS == "windows" {
		file += executableSuffix
	}
	return file
}

// problem says why a candidate can't be used.
func problem(f Found, before []Found) string {
	if !NamePattern.MatchString(f.Name) {
		return fmt.Sprintf("name %q has other characters than a-z, 0-9 and -", f.Name)
	}
	info, err := os.Stat(f.Path)
	switch {
	case f.Folder != "" && errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("a folder without an executable %s in it", filepath.Base(f.Path))
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return "not a regular file"
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0:
		return "not executable: run chmod +x " + f.Path
	}
	for _, b := range before {
		if b.Kind == f.Kind && b.Name == f.Name && b.Problem == "" {
			return "shadowed by " + b.Path
		}
	}
	return ""
}
