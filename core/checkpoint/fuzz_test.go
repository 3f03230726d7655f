package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/tensor"
)

// FuzzOpen: whatever a stranger's checkpoint lists and states, it is opened or refused, and nothing outside of it is read.
func FuzzOpen(f *testing.F) {
	layout, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{2}})
	if err != nil {
		f.Fatal(err)
	}
	dir, err := Save(f.TempDir(), State{Phase: "phase1", Step: 3}, Tensors{Layout: layout, Params: make([]float32, layout.Len())})
	if err != nil {
		f.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range []string{"SHA256SUMS", stateFile, modelFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		files[name] = string(text)
	}
	f.Add(files["SHA256SUMS"], files[stateFile])
	f.Add("", files[stateFile])
	f.Add(strings.Replace(files["SHA256SUMS"], modelFile, "../"+modelFile, 1), "{")
	f.Add("", `{"step": 1e99, "backend": {"state": "!"}}`)
	f.Fuzz(func(t *testing.T, sums, state string) {
		if sums == "" { // those of the state as it is
			sums = fmt.Sprintf("%x  %s\n%x  %s\n", sha256.Sum256([]byte(files[modelFile])), modelFile, sha256.Sum256([]byte(state)), stateFile)
		}
		for name, text := range map[string]string{"SHA256SUMS": sums, stateFile: state} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Open(dir)
		if err != nil {
			if strings.Contains(sums, "/") && !errors.Is(err, ErrDamaged) {
				t.Errorf("%q: %v", sums, err)
			}
			return
		}
		if err := c.ReadParams(layout, make([]float32, layout.Len())); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
