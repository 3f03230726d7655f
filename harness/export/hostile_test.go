package export_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/harness/export"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
)

// TestNamesStayInside: words of a stranger's record become names of files. No format writes outside of its folder.
func TestNamesStayInside(t *testing.T) {
	for _, format := range export.Formats {
		if !format.Folder {
			continue
		}
		for name, hostile := range map[string]func(r *series.Record){
			"backend":   func(r *series.Record) { r.Backend = "../../escape" },
			"optimizer": func(r *series.Record) { r.Optimizer = "/../../../escape" },
			"metric":    func(r *series.Record) { r.Steps[0].Values["../../../../../escape"] = 1 },
			"phase":     func(r *series.Record) { r.Recipe.Phases[0].Name = "../../../escape" },
		} {
			top := t.TempDir()
			out := filepath.Join(top, "a", "b", "out")
			if err := os.MkdirAll(filepath.Join(top, "a", "b"), 0o777); err != nil {
				t.Fatal(err)
			}
			records := seriestest.Write(t, t.TempDir(), 1, ipu)
			hostile(records[0])
			err := format.To(t.Context(), out, records)
			var outside []string
			if err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && !strings.HasPrefix(path, out+string(filepath.Separator)) {
					outside = append(outside, path)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if len(outside) > 0 {
				t.Errorf("%s with a hostile %s wrote %v (%v)", format.Name, name, outside, err)
			}
		}
	}
}
