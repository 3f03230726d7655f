package pretraining

import (
	"fmt"
	"os"
	"path/filepath"
)

// Files replaces each folder among the paths of a text by the .txt files in it, sorted by name. A folder without one is
// an error; a path that is not there stays as it is, for who opens it.
func Files(paths []string) ([]string, error) {
	var all []string
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			all = append(all, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("text %s: %w", path, err)
		}
		before := len(all)
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ".txt" && e.Type().IsRegular() {
				all = append(all, filepath.Join(path, e.Name()))
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("text %s is a folder without .txt files", path)
		}
	}
	return all, nil
}
