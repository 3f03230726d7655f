package tuning

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzSpace: the values that a space gives lie within its bounds.
func FuzzSpace(f *testing.F) {
	f.Add(`{"a.b": {"min": 1e-4, "max": 1, "scaling": "log"}}`)
	f.Add(`{"a": {"feasible_points": [1, "x", null]}}`)
	f.Add(`{"a": {"min": -1e308, "max": 1e308, "scaling": "linear"}}`)
	path := filepath.Join(f.TempDir(), "space.json")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSpace(path)
		if err != nil {
			return
		}
		for name, field := range s {
			if len(field.Values) == 0 && !(field.Min < field.Max) {
				t.Errorf("%s: %v", name, field)
			}
		}
	})
}
