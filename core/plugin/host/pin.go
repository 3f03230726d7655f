package host

import (
	"crypto/sha256"
	"encoding/hex"
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

// A plugin is pinned by a file beside it, which holds the SHA-256 of its file, or of each file of its folder, in
// the format of sha256sum:
//
//	9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  harness-optimizer-mine/harness-optimizer-mine
//	2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  harness-optimizer-mine/rule.py
//
// So `sha256sum --check` reads it as well, and errors can name the files that changed. Launch refuses a pinned
// plugin that has changed: runs must not differ because of a file that was edited, updated or damaged in between.
// What is started is a copy of what was checked, in a folder of the user's own (see ofPin), so that nothing can take its place
// in between. This does not protect against an attacker who can write into the user's folders.

// PinSuffix is appended to a plugin's name to make that of the file that pins it.
const PinSuffix = ".sha256"

// ErrChanged is wrapped by the error for a plugin that is not what was pinned.
var ErrChanged = errors.New("it was changed since it was pinned")

// cacheFolder is where Python caches what it compiled from a plugin's files. It is not part of a plugin.
const cacheFolder = "__pycache__"

// Hash returns the SHA-256 of a plugin's file in lower-case hexadecimal. That of a folder is the SHA-256 of the
// file that would pin it, which holds the sums of all its files.
func Hash(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return hashFile(path)
	}
	sums, err := sumsOf(path)
	if err != nil {
		return "", err
	}
	return sumOf([]byte(strings.Join(sums, ""))), nil
}

// mostPlugin is the size of a file of a plugin that is read.
const mostPlugin = 8 * bounded.GiB

func hashFile(path string) (string, error) {
	f, err := bounded.Open(path, mostPlugin)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sumsOf are the lines of the file that pins a plugin, sorted by path. A link counts as the file that it points to;
// one that points to no file counts as its text.
func sumsOf(plugin string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(plugin, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == cacheFolder:
			return fs.SkipDir
		case !d.IsDir():
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var lines []string
	for _, path := range paths {
		sum := ""
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if sum, err = hashFile(path); err != nil {
				return nil, err
			}
		} else {
			text, err := os.Readlink(path)
			if err != nil {
				return nil, fmt.Errorf("%s is neither a file nor a link", path)
			}
			sum = sumOf([]byte(text))
		}
		name, err := filepath.Rel(filepath.Dir(plugin), path)
		if err != nil {
			return nil, err
		}
		if name = filepath.ToSlash(name); strings.ContainsAny(name, "\n\r\\") {
			return nil, fmt.Errorf("%q: a file of a plugin has a line break or a backslash in its name", path)
		}
		lines = append(lines, sum+"  "+name+"\n")
	}
	return lines, nil
}

// Pin writes the file that pins a plugin, a file or a folder, as it is now.
func Pin(plugin string) error {
	sums, err := sumsOf(plugin)
	if err != nil {
		return err
	}
	return durable.WriteFile(plugin+PinSuffix, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(sums, ""))
		return err
	})
}

// CheckPin returns an error that wraps ErrChanged and says how a plugin differs from what was pinned. A plugin that
// is not pinned passes.
func CheckPin(plugin string) error {
	pinned, err := readPin(plugin)
	if pinned == nil || err != nil {
		return err
	}
	return differs(plugin, plugin, pinned)
}

// mostPin is the size of a pin that is read: 100,000 files and more.
const mostPin = 16 * bounded.MiB

// readPin returns the lines of the file that pins a plugin, nil if it is not pinned.
func readPin(plugin string) ([]string, error) {
	known, err := remembered(plugin)
	if err != nil {
		return nil, err
	}
	text, err := bounded.ReadFile(plugin+PinSuffix, mostPin)
	switch name := filepath.Base(plugin) + PinSuffix; {
	case errors.Is(err, fs.ErrNotExist) && known == "":
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w: it was installed with the pin %s, which is gone", plugin, ErrChanged, name)
	case err != nil:
		return nil, err
	case known != "" && known != sumOf(text):
		return nil, fmt.Errorf("%s: %w: its pin %s is not the one that it was installed with", plugin, ErrChanged, name)
	}
	return slices.AppendSeq([]string{}, strings.Lines(string(text))), nil
}

// sumOf is the SHA-256 of a text in hexadecimal.
func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// differs says how what lies at a path differs from a plugin as it was pinned, nil if it does not.
func differs(plugin, at string, pinned []string) error {
	now, err := sumsOf(at)
	if err != nil {
		return err
	}
	if slices.Equal(pinned, now) {
		return nil
	}
	var changes []string
	files := func(lines []string) map[string]string {
		sums := map[string]string{}
		for _, line := range lines {
			sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			sums[name] = sum
		}
		return sums
	}
	before, after := files(pinned), files(now)
	for name, sum := range before {
		switch got, there := after[name]; {
		case !there:
			changes = append(changes, name+" is gone")
		case got != sum:
			changes = append(changes, fmt.Sprintf("%s has SHA-256 %.12s, not %.12s", name, got, sum))
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			changes = append(changes, name+" is new")
		}
	}
	if len(changes) == 0 {
		changes = []string{"its lines are in another order, or no lines of sha256sum"}
	}
	slices.Sort(changes)
	if more := len(changes) - 3; more > 0 {
		changes = append(changes[:3], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s: %w in %s: %s", plugin, ErrChanged, filepath.Base(plugin)+PinSuffix, strings.Join(changes, "; "))
}
