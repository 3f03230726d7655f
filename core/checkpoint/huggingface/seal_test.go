package huggingface

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/sums"
	"harness.invalid/core/tensor"
)

// TestSeal: a flipped bit in any file of a folder that was written is found when the folder is opened, and a missing file
// is; both are named. A folder without a list opens as it is, and one that is written again gets a new list.
func TestSeal(t *testing.T) {
	from := saved(t, bert.Head{Task: bert.Pretraining}, tensor.F32)
	for _, format := range []Format{Safetensors, PyTorch, TensorFlow} {
		dir, _ := convert(t, from, Target{Format: format})
		opens := func() error {
			f, err := Open(dir)
			if err != nil {
				return err
			}
			return f.Close()
		}
		if err := opens(); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		files := tree(t, dir)
		if len(files) < 3 {
			t.Fatalf("%s: %d files", format, len(files))
		}
		for name, text := range files {
			path := filepath.Join(dir, name)
			changed := []byte(text)
			changed[len(changed)/2] ^= 1
			if err := os.WriteFile(path, changed, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := opens(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: a bit of %s was flipped: error is %v", format, name, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := opens(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name+" is missing") {
				t.Errorf("%s: %s was removed: error is %v", format, name, err)
			}
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("mine"), 0o666); err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(dir, configFile)
		if format == TensorFlow {
			config = filepath.Join(dir, googleConfigFile)
		}
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, append(text, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := opens(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: the configuration was changed: error is %v", format, err)
		}
		if err := os.Remove(filepath.Join(dir, sums.File)); err != nil {
			t.Fatal(err)
		}
		if err := opens(); err != nil {
			t.Errorf("%s: without a list: %v", format, err)
		}
	}
	dir, _ := convert(t, from, Target{Format: Safetensors})
	c, l, params := model(t, bert.Head{Task: bert.Pretraining})
	params[0]++
	if err := Save(dir, c, bert.Head{Task: bert.Pretraining}, l, params, tensor.F32); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatalf("a model was saved over another one: %v", err)
	}
	f.Close()
}
