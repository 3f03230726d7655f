//go:build !unix || portable

package weights

import "os"

func mapFile(f *os.File, _ int64) (mapping, error) { return readingFile{reading{f}, f}, nil }
