package experiment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/durable"
)

// StartCacheVariable names the environment variable that moves the folder in which start models are kept, as
// HARNESS_DATA does for data sets.
const StartCacheVariable = "HARNESS_START_MODELS"

// startFolder is where start models are kept for later experiments.
func startFolder() (string, error) {
	if dir := os.Getenv(StartCacheVariable); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "harness", "start"), nil
}

// models are the start models in a folder, PREFIX-DIGEST.safetensors. The name holds the SHA-256 of the contents, so
// that a damaged file is noticed.
type models struct{ dir, prefix string }

type model struct{ path, digest string }

// keptModels is how many start models stay in the cache: those used last.
const keptModels = 8

// find returns the model, or nil if there is none. It removes files that are damaged.
func (c models) find(o Observer) (*model, error) {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), c.prefix+"-") {
			continue
		}
		path := filepath.Join(c.dir, e.Name())
		digest, err := digestOf(path)
		if err != nil {
			return nil, err
		}
		if path == c.path(digest) {
			return &model{path, digest}, nil
		}
		o.note("the start model %s is damaged: it is made again", path)
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return nil, err
}

const modelExtension = ".safetensors"

func (c models) path(digest string) string {
	return filepath.Join(c.dir, c.prefix+"-"+digest+modelExtension)
}

// add copies a file into the folder. Processes that add the same model at once write the same file, each in full.
func (c models) add(from string) (_ *model, err error) {
	digest, err := digestOf(from)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		return nil, err
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return &model{c.path(digest), digest}, durable.WriteFile(c.path(digest), func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// used marks the model as used now.
func (c models) used(m *model) error {
	now := time.Now()
	err := os.Chtimes(m.path, now, now)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // the mark only decides what is removed first
	}
	return err
}

// keep adds a model, and removes those that have not been used for longest. One that a process is about to copy may be
// among these: it makes its model again.
func (c models) keep(from string) error {
	if _, err := c.add(from); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var kept []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == modelExtension {
			kept = append(kept, info)
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range kept[min(keptModels, len(kept)):] {
		if err := os.Remove(filepath.Join(c.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}
