// Package filename says which words of records and recipes may name files. A run.json or a recipe may come from anybody,
// and its backend, optimizer, phases and metrics become parts of paths: a name that passes here stays in the folder that
// it is joined to, on every system, and has no character that a terminal or a page would not show.
package filename

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInvalid is wrapped by errors about names that no file may have.
var ErrInvalid = errors.New("not a file name")

// most is the longest name in bytes: file systems take 255, and names get endings.
const most = 200

// Check reports a name that cannot be that of a file or a folder everywhere.
func Check(name string) error {
	if problem := problem(name); problem != "" {
		return fmt.Errorf("%q %s: %w", clip(name), problem, ErrInvalid)
	}
	return nil
}

// CheckPath is Check for every part of a path with slashes, such as the name of a recipe: it leads downwards only.
func CheckPath(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		if problem := problem(part); problem != "" {
			return fmt.Errorf("%q: %q %s: %w", clip(path), clip(part), problem, ErrInvalid)
		}
	}
	return nil
}

// Join is the path of a file in a folder. Its name, which may have slashes, is checked; the folder is not.
func Join(dir, name string) (string, error) {
	if err := CheckPath(name); err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(name)), nil
}

func problem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > most:
		return fmt.Sprintf("has %d bytes, want at most %d", len(name), most)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case name[0] == '.' || name[0] == ' ':
		return "begins with a dot or a space"
	case name[len(name)-1] == '.' || name[len(name)-1] == ' ':
		return "ends with a dot or a space"
	}
	for _, c := range name {
		if !unicode.IsPrint(c) || strings.ContainsRune(`/\:*?"<>|`, c) {
			return fmt.Sprintf("has the character %q", c)
		}
	}
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch stem = strings.TrimRight(stem, " "); {
	case stem == "CON" || stem == "PRN" || stem == "AUX" || stem == "NUL",
		len(stem) == 4 && (stem[:3] == "COM" || stem[:3] == "LPT") && stem[3] >= '0' && stem[3] <= '9':
		return "is a device of Windows"
	}
	return ""
}

// clip shortens a name for an error.
func clip(name string) string {
	const shown = 80
	if len(name) > shown {
		return name[:shown] + "..."
	}
	return name
}
