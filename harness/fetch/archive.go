package fetch

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"harness.invalid/core/durable"
	"harness.invalid/core/filename"
)

// maxUnpacked is the size of what comes out of one archive, far above the data sets here.
const maxUnpacked = 16 << 30

// The bounds of an archive that is no bomb: how many times its own size comes out of it, beyond what is always allowed,
// and how many files.
const (
	maxRatio  = 250
	allowed   = 64 << 20
	maxInside = 1 << 16
)

// unpack writes the files of a zip archive into a folder and returns their paths. A file that would lie outside of it
// is an error.
func unpack(archive, dir string) ([]string, error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	info, err := os.Stat(archive)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxInside {
		return nil, fmt.Errorf("it has %d files, want at most %d", len(z.File), maxInside)
	}
	most := min(maxUnpacked, max(allowed, maxRatio*uint64(info.Size())))
	total := uint64(0)
	for _, f := range z.File {
		if f.UncompressedSize64 > most-total {
			return nil, fmt.Errorf("it has %d bytes and unpacks to more than %d", info.Size(), most)
		}
		total += f.UncompressedSize64
	}
	var paths []string
	for _, f := range z.File {
		if f.FileInfo().IsDir() || strings.HasPrefix(f.Name, "__MACOSX/") || path.Base(f.Name) == ".DS_Store" {
			continue
		}
		to, err := filename.Join(dir, f.Name)
		if err != nil || !f.Mode().IsRegular() {
			return nil, fmt.Errorf("it has a file %q, which is not taken", f.Name)
		}
		paths = append(paths, to)
		if info, err := os.Stat(to); err == nil && uint64(info.Size()) == f.UncompressedSize64 {
			continue // of an earlier time: files are there in full or not at all
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return nil, err
		}
		if err := durable.WriteFile(to, func(w io.Writer) error {
			r, err := f.Open()
			if err != nil {
				return err
			}
			_, err = io.Copy(w, io.LimitReader(r, int64(f.UncompressedSize64)+1)) // the reader checks size and CRC
			return errors.Join(err, r.Close())
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return paths, nil
}
