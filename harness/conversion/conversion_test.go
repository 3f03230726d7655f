package conversion

import (
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
