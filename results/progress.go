package results

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"harness.invalid/core/bounded"
)

// HasEnded reports whether a folder holds a run with a result. It asks the file system for one name and reads nothing.
func HasEnded(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, resultFile))
	return err == nil
}

// LastStep is the last step that the run in a folder recorded; nil if there is none. It reads the end of the list alone
// and checks no sums: it is for showing how far a run is.
func LastStep(dir string) (_ *Step, err error) {
	f, err := bounded.OpenIn(dir, stepsFile, mostLines)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	text := make([]byte, min(size, 2*mostLine))
	n, err := f.ReadAt(text, size-int64(len(text)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	end := bytes.LastIndexByte(text[:n], '\n') // what follows is being written
	if end < 0 {
		return nil, nil
	}
	text = text[:end]
	var d stepDecoder
	return d.decode(text[bytes.LastIndexByte(text, '\n')+1:])
}
