//go:build !unix || portable

package arena

import (
	"errors"
	"os"
)

var errNotShared = errors.New("memory is not shared between processes on this system")

// create returns no file, so that memory comes from the heap.
func create() (*os.File, error) { return nil, nil }

func checkAttached(*os.File) error { return errNotShared }

func release(*os.File, int64, int64) error { return errNotShared }

func mapFile(*os.File, int64, int) ([]byte, error) { return nil, errNotShared }

func unmap([]byte) error { return errNotShared }
