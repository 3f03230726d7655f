package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"harness.invalid/core/checkpoint/sums"
	"harness.invalid/core/durable"
)

// sumWriter writes files into a folder and keeps their SHA-256.
type sumWriter struct {
	dir  string
	sums bytes.Buffer
}

func (w *sumWriter) file(name string, write func(io.Writer) error) error {
	h := sha256.New()
	err := durable.WriteFile(filepath.Join(w.dir, name), func(out io.Writer) error { return write(io.MultiWriter(out, h)) })
	w.sums.WriteString(sums.Line(h.Sum(nil), name))
	return err
}

// tempSuffix ends the names of incomplete and outdated folders; the names begin with a dot.
const tempSuffix = ".tmp"

// replaceDir puts a folder at path whose files write makes. It gets its name only once all of it is on disk.
func replaceDir(path string, write func(*sumWriter) error) (err error) {
	parent := filepath.Dir(path)
	if err := durable.MkdirAll(parent); err != nil {
		return err
	}
	temp := filepath.Join(parent, fmt.Sprintf(".%s.%08x%s", filepath.Base(path), rand.Uint32(), tempSuffix))
	if err := durable.Mkdir(temp); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, durable.RemoveAll(temp))
		}
	}()
	w := &sumWriter{dir: temp}
	if err := write(w); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(temp, sums.File), func(out io.Writer) error {
		_, err := out.Write(w.sums.Bytes())
		return err
	}); err != nil {
		return err
	}
	if err := durable.Rename(temp, path); err == nil {
		return durable.SyncDir(parent)
	} else if _, statErr := os.Lstat(path); statErr != nil {
		return err
	}
	// A folder cannot be renamed over a non-empty one. Between the two renames the path is missing, but both
	// versions exist.
	old := strings.TrimSuffix(temp, tempSuffix) + ".old" + tempSuffix
	if err := durable.Rename(path, old); err != nil {
		return err
	}
	if err := durable.Rename(temp, path); err != nil {
		return errors.Join(err, durable.Rename(old, path))
	}
	return errors.Join(durable.SyncDir(parent), durable.RemoveAll(old))
}

// readSums reads a folder's list of files and checks each file against it.
func readSums(dir string) (map[string]string, error) {
	list, err := sums.Check(dir, ErrDamaged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: %w", sums.File, ErrDamaged)
	}
	return list, err
}
