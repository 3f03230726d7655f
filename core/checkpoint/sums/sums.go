// Package sums writes and checks the list of a folder's files, SHA256SUMS, as sha256sum -c reads it.
package sums

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/filename"
)

// File is the name of the list.
const File = "SHA256SUMS"

// Limits on what is read.
const (
	mostList = bounded.MiB
	mostFile = 64 * bounded.TiB
)

// Line is that of a file.
func Line(sum []byte, name string) string { return fmt.Sprintf("%x  %s\n", sum, name) }

// Write writes the list of some of a folder's files.
func Write(dir string, names []string) error {
	var list strings.Builder
	for _, name := range names {
		sum, err := of(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		list.WriteString(Line(sum, name))
	}
	return durable.WriteFile(filepath.Join(dir, File), func(w io.Writer) error {
		_, err := io.WriteString(w, list.String())
		return err
	})
}

// Check reads the list of a folder and checks each file against it: sums in hexadecimal digits by name. Errors about a file
// that differs, and about a list that Write does not write, wrap damaged; one about a missing list wraps fs.ErrNotExist.
func Check(dir string, damaged error) (map[string]string, error) {
	text, err := bounded.ReadFile(filepath.Join(dir, File), mostList)
	if err != nil {
		return nil, err
	}
	sums := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || !strings.HasSuffix(line, "\n") || filename.Check(name) != nil {
			return nil, fmt.Errorf("%s has the line %q, want a sum, two spaces and a name: %w", File, line, damaged)
		}
		sums[name] = sum
		got, err := of(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is missing: %w", name, damaged)
		} else if err != nil {
			return nil, err
		}
		if got := hex.EncodeToString(got); got != sum {
			return nil, fmt.Errorf("%s has the SHA-256 %s, want %s: %w", name, got, sum, damaged)
		}
	}
	return sums, nil
}

func of(path string) ([]byte, error) {
	f, err := bounded.Open(path, mostFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, bufio.NewReaderSize(f, 64<<10)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
