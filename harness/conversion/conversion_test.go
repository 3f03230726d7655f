package conversion

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/checkpoint/huggingface"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"5GB": 5e9, "1.5 MiB": 3 << 19, "700": 700, "2kb": 2000} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GB", "5XB", "-1GB", "0", "99999999999GB"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

// TestTarget: the ending of To decides on the format where nothing else does, and a folder has none.
func TestTarget(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		c    Conversion
		want string // the format, or part of an error
		file bool
	}{
		{Conversion{To: "a.bin"}, "pytorch", true},
		{Conversion{To: "a.ckpt"}, "tensorflow", true},
		{Conversion{To: "a"}, "safetensors", false},
		{Conversion{To: dir, Format: "tensorflow"}, "tensorflow", false},
		{Conversion{To: filepath.Join(dir, "a.pt"), Format: "safetensors"}, "is a file of pytorch", true},
		{Conversion{To: "a", Format: "pytorsh"}, "did you mean pytorch?", false},
		{Conversion{To: "a", DType: "fp61"}, "did you mean fp16?", false},
		{Conversion{To: "a.bin", Shard: "5GB"}, "is for a folder with safetensors", true},
		{Conversion{To: "a", Shard: "5XB"}, "want a size", false},
	} {
		got, file, err := c.c.target()
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %s", c.c, err, c.want)
			}
			continue
		}
		if got.Format != huggingface.Format(c.want) || file != c.file {
			t.Errorf("%+v: %s, file %v, want %s, %v", c.c, got.Format, file, c.want, c.file)
		}
	}
}

// TestSpares: no conversion replaces its source, by whatever name it is called, or files of a run.
func TestSpares(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(names ...string) {
		for _, name := range names {
			if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(name), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("model/config.json", "model/model.safetensors", "run/run.json",
		"run/checkpoints/00-a-00000001/state.json", "other.bin")
	if err := os.Symlink("model", "link"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"model", "model", true}, {"model", "model/", true}, {"model", "./model/../model", true},
		{"model", filepath.Join(dir, "model"), true}, {"model", "link", true}, {"link", "model", true},
		{"model/model.safetensors", "model", true},
		{"model/model.safetensors", "model/model.safetensors", true}, {"model", "model/model.safetensors", true},
		{"other.bin", "other.bin", true},
		{"run", "run", true}, {"run", "run/checkpoints/00-a-00000001", true},
		{"model", "run", true},
		{"model", "new", false}, {"model", "other.bin", false}, {"model", "model/new.safetensors", false}, {"run", "model", false},
	} {
		conversion := Conversion{From: c.from, To: c.to, Say: func(string, ...any) {}}
		err := conversion.spares()
		if (err != nil) != c.refused {
			t.Errorf("convert %s %s: %v, want refused %v", c.from, c.to, err, c.refused)
		}
		if c.refused {
			if err := conversion.Run(); err == nil {
				t.Errorf("convert %s %s ran", c.from, c.to)
			}
		}
	}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && string(text) != filepath.ToSlash(path) {
			t.Errorf("%s was changed", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
