package extension

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
)

// leftOut are folders that may lie in a plugin's folder without being part of it.
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

// copyFile copies a file and its executable bit.
func copyFile(from, into string) error {
	in, err := bounded.Open(from, bounded.TiB)
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
