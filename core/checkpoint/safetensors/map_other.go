//go:build !unix

package safetensors

import "os"

func mapFile(f *os.File, _ int64) (mapping, error) { return fileMapping{readerMapping{f}, f}, nil }
