package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
)

// pinsFile is a file in the user's configuration that has the SHA-256 of the pin of each plugin that was installed, by the
// plugin's path. A plugin whose pin is deleted is not unpinned by that.
const pinsFile = "pins.json"

func pinsPath() (string, error) {
	config, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(config, "harness", pinsFile), nil
}

// remembered is the sum of the pin that a plugin was installed with, "" if it was not installed.
func remembered(plugin string) (string, error) {
	pins, err := readPins()
	if err != nil {
		return "", err
	}
	if path, err := filepath.Abs(plugin); err == nil {
		plugin = path
	}
	return pins[plugin], nil
}

func readPins() (map[string]string, error) {
	path, err := pinsPath()
	if err != nil {
		return nil, nil // a user without a folder has installed nothing
	}
	text, err := bounded.ReadFile(path, mostPin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pins map[string]string
	if err := json.Unmarshal(text, &pins); err != nil {
		return nil, fmt.Errorf("%s: %w: remove it, and install your plugins again", path, err)
	}
	return pins, nil
}

// Remember keeps that a plugin was installed with the pin beside it.
func Remember(plugin string) error {
	text, err := bounded.ReadFile(plugin+PinSuffix, mostPin)
	if err != nil {
		return err
	}
	return changePins(func(pins map[string]string) { pins[plugin] = sumOf(text) })
}

// Forget undoes Remember.
func Forget(plugin string) error {
	return changePins(func(pins map[string]string) { delete(pins, plugin) })
}

func changePins(change func(pins map[string]string)) (err error) {
	path, err := pinsPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	unlock, err := durable.Lock(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	pins, err := readPins()
	if err != nil {
		return err
	}
	if pins == nil {
		pins = map[string]string{}
	}
	change(pins)
	text, err := json.MarshalIndent(pins, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// mostCopied is the size of a pinned plugin, of which a copy is started.
const mostCopied = 2 * bounded.GiB

// ofPin returns what to start of a plugin: itself, or if it is pinned a copy of what was pinned. The copy lies in the user's
// cache, where nobody else can write, under the sum of its pin, and is checked before each start.
func ofPin(plugin string) (string, error) {
	pinned, err := readPin(plugin)
	if pinned == nil || err != nil {
		return plugin, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for a copy of a pinned plugin: %w: set XDG_CACHE_HOME", err)
	}
	folder := filepath.Join(cache, "harness", "pinned", sumOf([]byte(strings.Join(pinned, "")))[:32])
	path := filepath.Join(folder, filepath.Base(plugin))
	if now, err := sumsOf(path); err == nil && slices.Equal(now, pinned) {
		// The plugin itself is checked all the same: who changes it wants another one started.
		return path, differs(plugin, plugin, pinned)
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(folder), ".copy-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temporary) }() // what is left was not put in its place
	copied := filepath.Join(temporary, filepath.Base(plugin))
	if err := copyFiles(plugin, copied); err != nil {
		return "", err
	}
	if err := differs(plugin, copied, pinned); err != nil {
		return "", err
	}
	if err := os.RemoveAll(folder); err != nil { // a copy that was damaged
		return "", err
	}
	if err := os.Rename(temporary, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, differs(plugin, path, pinned) // another process may have been faster
}

// copyFiles copies a plugin's file, or its folder. Links within the folder stay links; what others lead to is copied.
func copyFiles(from, to string) error {
	left := int64(mostCopied)
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		info, err := os.Stat(path)
		switch {
		case d.IsDir() && d.Name() == cacheFolder:
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case err != nil || !info.Mode().IsRegular():
			text, err := os.Readlink(path)
			if err != nil {
				return fmt.Errorf("%s is neither a file nor a link", path)
			}
			return os.Symlink(text, target)
		}
		if text, err := os.Readlink(path); err == nil && filepath.IsLocal(filepath.Join(filepath.Dir(name), text)) && !filepath.IsAbs(text) {
			return os.Symlink(text, target)
		}
		if left -= info.Size(); left < 0 {
			return fmt.Errorf("%s has more than %d bytes, the most that a pinned plugin may have: %w", from, int64(mostCopied), bounded.ErrTooLarge)
		}
		return copyFile(path, target, info.Mode().Perm()&0o500|0o400)
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := bounded.Open(from, mostCopied)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, bounded.Reader(in, mostCopied))
	return errors.Join(err, out.Close())
}
