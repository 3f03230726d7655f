package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
)

// ErrNoneIntact is the error of Latest for a folder all of whose checkpoints are damaged.
var ErrNoneIntact = errors.New("no checkpoint is intact")

// Whatever else lies in the folder of a run's checkpoints is somebody's, and is neither counted nor removed.
var (
	// savedPattern is what State.Name makes.
	savedPattern = regexp.MustCompile(`^[0-9]{2,}-.+-[0-9]{8,}$`)
	// tornPattern is what replaceDir makes of it while it writes.
	tornPattern = regexp.MustCompile(`^\.[0-9]{2,}-.+-[0-9]{8,}\.[0-9a-f]{8}(\.old)?\.tmp$`)
)

// Latest opens the newest intact checkpoint in a folder. damaged says what is wrong with newer ones. If there is
// none at all, the error wraps fs.ErrNotExist; if there are some, and all of them are damaged, ErrNoneIntact.
func Latest(dir string) (c *Checkpoint, damaged []error, err error) {
	names, err := list(dir, savedPattern)
	if err != nil {
		return nil, nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return standing(dir, name) == copied })
	for _, name := range slices.Backward(names) {
		c, err := Open(filepath.Join(dir, name))
		if err == nil {
			return c, damaged, nil
		}
		damaged = append(damaged, err)
	}
	if len(damaged) > 0 {
		return nil, damaged, fmt.Errorf("%s: %w:\n%v", dir, ErrNoneIntact, errors.Join(damaged...))
	}
	return nil, nil, bounded.As(fs.ErrNotExist, "%s holds no checkpoint", dir)
}

// Prune removes all but the newest keep checkpoints of a folder, and leftovers of interrupted writes. A checkpoint
// whose state cannot be read does not count and stays. No other process may be saving there.
func Prune(dir string, keep int) error {
	names, err := list(dir, savedPattern)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return standing(dir, name) != saved })
	outdated, err := list(dir, tornPattern)
	if err != nil {
		return err
	}
	// A checkpoint loses its name before it loses its files, so that a crash leaves no half of one.
	for _, name := range names[:max(0, len(names)-keep)] {
		torn := fmt.Sprintf(".%s.%08x.old%s", name, rand.Uint32(), tempSuffix)
		if err := durable.Rename(filepath.Join(dir, name), filepath.Join(dir, torn)); err != nil {
			return err
		}
		outdated = append(outdated, torn)
	}
	if len(names) > keep {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	for _, name := range outdated {
		if err := durable.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// The standings of a folder that is named like a checkpoint.
const (
	saved      = iota // by Save
	copied            // of another name's state: somebody copied or renamed it
	unreadable        // damaged
)

// standing tells whose a folder is, from its name and its state.
func standing(dir, name string) int {
	var s State
	text, err := bounded.ReadFile(filepath.Join(dir, name, stateFile), mostState)
	switch {
	case err != nil || json.Unmarshal(text, &s) != nil:
		return unreadable
	case s.Name() != name:
		return copied
	}
	return saved
}

// list returns the names of a folder's folders that match a pattern, in the order of names.
func list(dir string, pattern *regexp.Regexp) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && pattern.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
