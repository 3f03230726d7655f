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

// Found is an executable that is named like a plugin.
type Found struct {
	Kind plugin.Kind
	Name string
	Path string
	// Folder is the folder of the same name around the executable, if the plugin is more than that one file.
	Folder string
	// Problem says why it cannot be used: it is not executable, its name is not allowed, or another one shadows it.
	// Empty: it can be used.
	Problem string
}

// Files is what the plugin consists of: its folder or its executable. Hash and Pin take it.
func (f Found) Files() string {
	if f.Folder != "" {
		return f.Folder
	}
	return f.Path
}

// Pinned reports whether the plugin is pinned.
func (f Found) Pinned() bool {
	if known, err := remembered(f.Files()); err == nil && known != "" {
		return true // should its pin be gone, it is not started
	}
	_, err := os.Stat(f.Files() + PinSuffix)
	return err == nil
}

// SearchPath is where third parties' plugins are searched for, in this order: the folders of $HARNESS_PLUGIN_PATH,
// the user's folder for plugins, and $PATH.
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

// Discover lists the plugins in folders: executables named harness-backend-NAME or harness-optimizer-NAME (with
// .exe on Windows), and folders of such a name that hold an executable of the same name. Those that cannot be used
// are listed with the reason. The first usable one of a name counts. Folders that do not exist, or are given twice,
// are skipped; one that cannot be read is an error, which comes with the plugins of the others.
func Discover(folders []string) ([]Found, error) {
	var found []Found
	var errs []error
	var seen []string
	for _, folder := range folders {
		if folder == "" || slices.Contains(seen, filepath.Clean(folder)) {
			continue
		}
		seen = append(seen, filepath.Clean(folder))
		names, err := candidates(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugins: %w", err))
			continue
		}
		for _, name := range names {
			if f, ok := At(filepath.Join(folder, name)); ok {
				f.Problem = problem(f, found)
				found = append(found, f)
			}
		}
	}
	return found, errors.Join(errs...)
}

// candidates are the files of a folder that may be plugins by the beginning of their names, sorted. Folders of $PATH
// have thousands of others, which are not sorted.
func candidates(folder string) ([]string, error) {
	d, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	const prefix = "harness-"
	names, err := d.Readdirnames(-1)
	names = slices.DeleteFunc(names, func(name string) bool {
		return len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) // Windows ignores case
	})
	slices.Sort(names)
	return names, err
}

// At reads kind and name off the path of a plugin's executable or folder. It does not check whether the plugin can
// be used.
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

// executableSuffix ends the names of programs on Windows.
const executableSuffix = ".exe"

// Executable is the file name of a plugin's executable.
func Executable(k plugin.Kind, name string) string {
	file := "harness-" + string(k) + "-" + name
	if runtime.GOOS == "windows" {
		file += executableSuffix
	}
	return file
}

// problem says why a candidate cannot be used, "" if it can. before are the candidates found before it.
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
