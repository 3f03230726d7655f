package huggingface

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"harness.invalid/core/checkpoint/sums"
	"harness.invalid/core/durable"
)

// ErrDamaged is wrapped by errors about a folder whose files are not those of its list.
var ErrDamaged = errors.New("it was damaged, or changed after it was written; if you changed it, remove " + sums.File)

// sealed are the names of files that a model's list has.
var sealed = slices.Concat([]string{configFile, googleConfigFile, modelFile, "model-?????-of-?????.safetensors", modelFile + indexSuffix,
	binFile, optimizerFile, checkpointName + ".*"}, tokenizerFiles)

// Seal lists the files of a model with their sums, in a file that Open checks, and more files that belong to it.
func Seal(dir string, more ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("model %w", err)
	}
	var names []string
	for _, e := range entries {
		matches := func(pattern string) bool {
			ok, _ := filepath.Match(pattern, e.Name())
			return ok
		}
		if slices.ContainsFunc(sealed, matches) || slices.Contains(more, e.Name()) {
			names = append(names, e.Name())
		}
	}
	if err := sums.Write(dir, names); err != nil {
		return fmt.Errorf("model %s: %w", dir, err)
	}
	return nil
}

// unseal removes the list of a folder whose files are about to be replaced.
func unseal(dir string) error {
	if err := durable.Remove(filepath.Join(dir, sums.File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkSeal checks a folder's files, if it has a list.
func checkSeal(dir string) error {
	if _, err := sums.Check(dir, ErrDamaged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
