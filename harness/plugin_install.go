package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
)

func newPluginInstall() *cobra.Command {
	return &cobra.Command{
		Use:   "install FILE|FOLDER",
		Short: "Put a plugin into your plugin folder, and pin it",
		Long: `Install copies a plugin into your plugin folder: an executable named harness-backend-NAME or harness-optimizer-NAME, or a folder with such an executable
in it, with all its files. It must answer when it is asked what it is. One of that name which was installed before is replaced.

Beside it a file named like it with .sha256 behind keeps the SHA-256 of its files, as sha256sum writes them. A plugin that was changed since is refused, until
it is installed again or, where the change was made in your plugin folder, that is accepted by installing it from there.`,
		Example: `  harness plugin install harness-optimizer-my-rule/harness-optimizer-my-rule
  harness plugin install devices/mine
  harness plugin install ~/.config/harness/plugins/harness-optimizer-my-rule`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := installPlugin(cmd.Context(), args[0], cmd.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("plugin install: %w", err)
			}
			d.printHead(cmd.OutOrStdout())
			return nil
		},
	}
}

func newPluginUninstall() *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:   "uninstall [backend|optimizer] NAME",
		Short: "Remove a plugin from your plugin folder",
		Long:  `Uninstall removes a plugin and what pins it from your plugin folder. Plugins elsewhere are left alone.`,
		Example: `  harness plugin uninstall my-rule
  harness plugin uninstall backend my-device`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completePlugin,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := namedPlugin(args, kind)
			if err != nil {
				return err
			}
			folder, err := host.UserFolder()
			if err != nil {
				return err
			}
			if path := e.Source(); e.BuiltIn || filepath.Dir(path) != folder {
				return fmt.Errorf("plugin uninstall: %s %s is %s, and not in %s", e.Kind, e.Name, e.Where(), folder)
			}
			if err := removePlugin(e.Source()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", e.Source())
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "backend or optimizer; needed where one of each has the name")
	return cmd
}

// removePlugin removes a file or a folder, and then what pins it: one that is broken off in between is still refused.
func removePlugin(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.Remove(path + host.PinSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// installPlugin copies a plugin to the user's folder, or pins it anew when it is there already.
func installPlugin(ctx context.Context, from string, out io.Writer) (d description, err error) {
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
	// The copy is tried where it does not count yet, under its own name.
	temporary, err := os.MkdirTemp(own, ".install-")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	copied := filepath.Join(temporary, filepath.Base(into))
	if err := copyPlugin(f.Files(), copied); err != nil {
		return d, err
	}
	tried, err := pluginIn(copied)
	if err != nil {
		return d, err
	}
	if err := answers(ctx, tried, out); err != nil {
		return d, err
	}
	// From here to the end the plugin that was there before does not match the new sums: it is refused, should this be broken off.
	if err := host.Pin(copied); err != nil {
		return d, err
	}
	if err := os.Rename(copied+host.PinSuffix, into+host.PinSuffix); err != nil {
		return d, err
	}
	if err := os.Rename(into, filepath.Join(temporary, "before")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	if err := os.Rename(copied, into); err != nil {
		return d, err
	}
	if err := durable.SyncDir(own); err != nil {
		return d, err
	}
	return pinned(ctx, into, out)
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

// pluginIn is the plugin that a file is, or the one that a folder holds.
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
		return host.Found{}, fmt.Errorf("no file in %s is named harness-backend-NAME or harness-optimizer-NAME: build the plugin first, or rename it", path)
	case 1:
		return found[0], fit(found[0])
	}
	return host.Found{}, fmt.Errorf("%s has several plugins, %s: install one file after the other, or give each a folder", path, strings.Join(names, ", "))
}

// fit reports a plugin that could not be started once it is installed.
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
		return fmt.Errorf("%s is not executable: run chmod +x %s", f.Path, shellString(f.Path))
	}
	return nil
}

// answers starts a plugin that need not be as it was pinned, and asks it what it is.
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
func pinned(ctx context.Context, path string, out io.Writer) (d description, err error) {
	if err := host.Pin(path); err != nil {
		return d, err
	}
	f, _ := host.At(path)
	e, err := catalog.At(f)
	if err != nil {
		return d, err
	}
	if d, err = describePlugin(ctx, e, nil); err != nil {
		return d, err
	}
	found, err := catalog.Find(f.Kind, f.Name)
	if err == nil && found.Source() != path {
		fmt.Fprintf(out, "%s goes before it: take its folder out of HARNESS_PLUGIN_PATH to use the one that is installed\n", found.Source())
	}
	return d, err
}

// leftOut are folders that are no part of a plugin, though they lie in its folder.
var leftOut = []string{"__pycache__", ".git"}

// copyPlugin copies a file, or a folder with all its files.
func copyPlugin(from, into string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(into, relative)
		switch {
		case d.IsDir() && relative != "." && slices.Contains(leftOut, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.Mkdir(target, 0o777)
		case path != from && !d.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file: a plugin is installed with files and folders alone", path)
		}
		return copyFile(path, target)
	})
}

// copyFile copies a file and whether it is executable.
func copyFile(from, into string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	err = durable.WriteFile(into, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
	if err != nil || info.Mode().Perm()&0o111 == 0 {
		return err
	}
	return os.Chmod(into, 0o777&^0o022)
}
