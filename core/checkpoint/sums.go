package checkpoint

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/filename"
)

// sumWriter writes files into a folder and keeps their SHA-256.
type sumWriter struct {
	dir  string
	sums bytes.Buffer
}

func (w *sumWriter) file(name string, write func(io.Writer) error) error {
	h := sha256.New()
	err := durable.WriteFile(filepath.Join(w.dir, name), func(out io.Writer) error { return write(io.MultiWriter(out, h)) })
	fmt.Fprintf(&w.sums, "%x  %s\n", h.Sum(nil), name)
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
	if err := durable.WriteFile(filepath.Join(temp, sumsFile), func(out io.Writer) error {
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
	text, err := bounded.ReadFile(filepath.Join(dir, sumsFile), mostSums)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: %w", sumsFile, ErrDamaged)
	} else if err != nil {
		return nil, err
	}
	sums := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || !strings.HasSuffix(line, "\n") || filename.Check(name) != nil {
			return nil, fmt.Errorf("%s has the line %q, want a sum, two spaces and a name: %w", sumsFile, line, ErrDamaged)
		}
		sums[name] = sum
		got, err := sumOf(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is missing: %w", name, ErrDamaged)
		} else if err != nil {
			return nil, err
		}
		if got != sum {
			return nil, fmt.Errorf("%s has the SHA-256 %s, want %s: %w", name, got, sum, ErrDamaged)
		}
	}
	return sums, nil
}

func sumOf(path string) (string, error) {
	f, err := bounded.Open(path, mostFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, bufio.NewReaderSize(f, 64<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
