package results

import (
	"errors"
	"path/filepath"

	"harness.invalid/core/durable"
)

// Discard closes a record that has nothing, and removes its folder unless somebody put something there.
func (w *Writer) Discard() error {
	err := errors.Join(w.closeFiles(), forget(w.dir))
	if err == nil {
		for _, name := range []string{recipeFile, environmentFile, stepsFile, evaluationsFile} {
			err = errors.Join(err, durable.Remove(w.Path(name)))
		}
	}
	err = errors.Join(err, w.unlock())
	if err == nil {
		err = durable.Remove(w.Path(lockFile))
		_ = durable.Remove(w.dir)
	}
	return err
}

// forget removes, for good, the file that makes a folder a run. It goes first, so that neither a crash nor a disk that
// fails leaves what looks like a run and is none.
func forget(dir string) error {
	if err := durable.Remove(filepath.Join(dir, runFile)); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// Remove deletes a run's folder.
func Remove(dir string) error {
	if err := forget(dir); err != nil {
		return err
	}
	return durable.RemoveAll(dir)
}
