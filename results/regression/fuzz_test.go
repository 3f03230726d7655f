package regression

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzBaseline: no baseline that is taken cannot be written and read again.
func FuzzBaseline(f *testing.F) {
	found, err := filepath.Glob(filepath.Join("..", "baselines", "*.json"))
	if err != nil || len(found) == 0 {
		f.Fatal(found, err)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 64<<10 {
			f.Add(text)
		}
	}
	f.Add([]byte(`{"fingerprint":"a","alpha":0.05,"arms":[{"arm":{"backend":"a"},"runs":[{}]}]}`))
	path := filepath.Join(f.TempDir(), "baseline.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := ReadBaseline("a", text)
		if err != nil {
			return
		}
		if err := b.Save(path); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path); err != nil {
			t.Error(err)
		}
	})
}
