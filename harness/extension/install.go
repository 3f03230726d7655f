package extension

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/processes"
)

// Uninstall removes a plugin and its pin from the user's folder. The pin goes last: what an interrupted removal
// leaves is refused.
func Uninstall(e catalog.Entry) error {
	folder, err := host.UserFolder()
	if err != nil {
		return err
	}
	path := e.Source()
	if e.BuiltIn || filepath.Dir(path) != folder {
		return fmt.Errorf("%s %s is %s, and not in %s", e.Kind, e.Name, e.Where(), folder)
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.Remove(path + host.PinSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return host.Forget(path)
}

// Install copies a plugin into the user's folder and pins it; one that is there already is pinned as it is now. from
// is an executable with the name of a plugin, or a folder that holds one. What the plugin prints goes to out,
// together with a warning when another plugin hides this one.
func Install(ctx context.Context, from string, out io.Writer) (d Description, err error) {
	if from, err = filepath.Abs(from); err != nil {
		return d, err
	}
	f, err := pluginIn(from)
	if err != nil {
		return d, err
	}
	if e, err := catalog.Find(f.Kind, f.Name); err == nil && e.BuiltIn {
		return d, fmt.Errorf("a built-in %s is named %s and goes before all others: choose another name", f.Kind, f.Name)
	}
	own, err := host.UserFolder()
	if err != nil {
		return d, err
	}
	if err := os.MkdirAll(own, 0o777); err != nil {
		return d, err
	}
	into := filepath.Join(own, filepath.Base(f.Path))
	if f.Folder != "" {
		into = filepath.Join(own, strings.TrimSuffix(filepath.Base(f.Path), filepath.Ext(f.Path)))
	}
	if sameFile(from, into) {
		if err := answers(ctx, f, out); err != nil {
			return d, err
		}
		return pinned(ctx, into, out)
	}
	if err := replace(ctx, f, own, into, out); err != nil {
		return d, err
	}
	return pinned(ctx, into, out)
}

// replace copies a plugin into a folder, tries the copy, and puts it with its pin in the place of what lies at into.
func replace(ctx context.Context, f host.Found, own, into string, out io.Writer) (err error) {
	// Nobody finds the copy here, and it has its own name.
	temporary, err := os.MkdirTemp(own, ".install-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	copied := filepath.Join(temporary, filepath.Base(into))
	if err := copyPlugin(f.Files(), copied); err != nil {
		return err
	}
	tried, err := pluginIn(copied)
	if err != nil {
		return err
	}
	if err := answers(ctx, tried, out); err != nil {
		return err
	}
	// From here on the plugin that was there before does not match the new sums: should this be interrupted, it is
	// refused.
	if err := host.Pin(copied); err != nil {
		return err
	}
	if err := os.Rename(copied+host.PinSuffix, into+host.PinSuffix); err != nil {
		return err
	}
	if err := os.Rename(into, filepath.Join(temporary, "before")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(copied, into); err != nil {
		return err
	}
	return durable.SyncDir(own)
}

// sameFile reports whether two paths lead to the same file or folder.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// pluginIn returns the plugin that a file is, or the one that a folder holds.
func pluginIn(path string) (host.Found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return host.Found{}, err
	}
	if !info.IsDir() {
		f, ok := host.At(path)
		if !ok {
			return f, fmt.Errorf("%s is not named harness-backend-NAME or harness-optimizer-NAME: rename it", path)
		}
		return f, fit(f)
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return host.Found{}, err
	}
	var found []host.Found
	var names []string
	for _, e := range files {
		if f, ok := host.At(filepath.Join(path, e.Name())); ok && f.Folder == "" {
			f.Folder = path
			found, names = append(found, f), append(names, e.Name())
		}
	}
	switch len(found) {
	case 0:
		return host.Found{}, fmt.Errorf("no file in %s is named harness-backend-NAME or harness-optimizer-NAME: "+
			"build the plugin first, or rename it", path)
	case 1:
		return found[0], fit(found[0])
	}
	return host.Found{}, fmt.Errorf("%s has several plugins, %s: install one file after the other, or give each a folder",
		path, strings.Join(names, ", "))
}

// fit reports why a plugin could not be started once it is installed.
func fit(f host.Found) error {
	info, err := os.Stat(f.Path)
	switch {
	case err != nil:
		return err
	case !host.NamePattern.MatchString(f.Name):
		return fmt.Errorf("the name %q has other characters than a-z, 0-9 and -", f.Name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", f.Path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: run chmod +x %s", f.Path, hint.Quote(f.Path))
	}
	return nil
}

// answers starts a plugin, whether or not it is as it was pinned, and asks it what it is.
func answers(ctx context.Context, f host.Found, out io.Writer) error {
	e, err := catalog.At(f)
	if err != nil {
		return err
	}
	s, err := processes.Spec(e)
	if err != nil {
		return err
	}
	s.Files, s.Transport, s.Stderr = "", host.Stream, processes.Prefixed(out, e)
	p, err := host.Launch(ctx, s)
	if err != nil {
		return err
	}
	if e.Kind == plugin.Backend {
		_, err = p.Backend().Describe(ctx)
	} else {
		_, err = p.Optimizer().Describe(ctx)
	}
	return errors.Join(err, p.Close())
}

// pinned pins a plugin as it is, and describes it as others will find it.
func pinned(ctx context.Context, path string, out io.Writer) (d Description, err error) {
	if err := errors.Join(host.Pin(path), host.Remember(path)); err != nil {
		return d, err
	}
	f, _ := host.At(path)
	e, err := catalog.At(f)
	if err != nil {
		return d, err
	}
	if d, err = Describe(ctx, e, nil); err != nil {
		return d, err
	}
	found, err := catalog.Find(f.Kind, f.Name)
	if err == nil && found.Source() != path {
		fmt.Fprintf(out, "%s goes before it: take its folder out of HARNESS_PLUGIN_PATH to use the one that is installed\n", found.Source())
	}
	return d, err
}
