//go:build unix && !linux && !portable

package arena

import (
	"errors"
	"fmt"
	"os"
)

// create opens a temporary file and unlinks it.
func create() (*os.File, error) {
	f, err := os.CreateTemp("", "harness-arena-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkAttached(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("file has mode %v, want a regular file", info.Mode())
	}
	return nil
}

// release does nothing: another region will reuse the range.
func release(*os.File, int64, int64) error { return nil }
