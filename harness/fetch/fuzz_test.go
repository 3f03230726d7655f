package fetch

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzUnpack: no archive puts a file outside of its folder, or more than its bounds inside.
func FuzzUnpack(f *testing.F) {
	for _, names := range [][]string{{"a.txt", "b/c.txt"}, {"../x"}, {"/etc/x"}, {"a", "a/b"}, {"__MACOSX/a", "d/"}, {"a", "a"}} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range names {
			w, err := z.Create(name)
			if err == nil && !strings.HasSuffix(name, "/") {
				_, err = w.Write([]byte("text"))
			}
			if err != nil {
				f.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	top := f.TempDir()
	archive, dir := filepath.Join(top, "a.zip"), filepath.Join(top, "x", "y")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(archive, data, 0o666); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(filepath.Join(top, "x")) }()
		paths, err := unpack(archive, dir)
		for _, path := range paths {
			if name, relErr := filepath.Rel(dir, path); relErr != nil || !filepath.IsLocal(name) {
				t.Errorf("%s is written", path)
			}
		}
		size, files := int64(0), 0
		if walkErr := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path == archive {
				return err
			}
			if !strings.HasPrefix(path, dir+string(filepath.Separator)) {
				t.Errorf("%s is written", path)
			}
			files++
			info, err := d.Info()
			if err == nil {
				size += info.Size()
			}
			return err
		}); walkErr != nil {
			t.Fatal(walkErr)
		}
		if size > allowed || err == nil && files > len(paths) {
			t.Errorf("%d bytes in %d files, %d are named", size, files, len(paths))
		}
	})
}

// FuzzSums: the list of a folder is read as it was written.
func FuzzSums(f *testing.F) {
	f.Add("0a  b\n1c  d e\n")
	f.Add("x\n  \n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, sumsFile)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		sums, err := readSums(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeSums(path, sums); err != nil {
			t.Fatal(err)
		}
		again, err := readSums(path)
		if err != nil || len(again) != len(sums) {
			t.Errorf("%q: %q, then %q, %v", text, sums, again, err)
		}
		for name, sum := range sums {
			if again[name] != sum {
				t.Errorf("%q: %q has %q, then %q", text, name, sum, again[name])
			}
		}
	})
}
