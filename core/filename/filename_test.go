package filename_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/filename"
)

func TestCheck(t *testing.T) {
	for _, name := range []string{
		"phase1", "squad.best",
		"ipu-adamw-seed1", "my recipe (2)", "größe", "语言", "torch.AdamW", "a+b", "-", "console",
		"x" + strings.Repeat("y", 199),
	} {
		if err := filename.Check(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"", ".", "..", "../x", "a/b", `a\b`, "/etc/shadow", "C:x", "C:\\x", ".hidden", "x.", "x ", " x",
		"a\x00b", "a\nb", "a\x1b[2Jb",
		"a\u202eb", "a\xffb", "NUL", "nul.txt", "com1", "Aux .txt",
		"x" + strings.Repeat("y", 200), "a*", "a?b", "a|b",
	} {
		if err := filename.Check(name); !errors.Is(err, filename.ErrInvalid) {
			t.Errorf("%q passes: %v", name, err)
		}
	}
}

func TestJoin(t *testing.T) {
	want := filepath.Join("runs", "graphcore", "pytorch", "base")
	if got, err := filename.Join("runs", "graphcore/pytorch/base"); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, name := range []string{"", "/x", "x/", "a//b", "a/../../b", "../b", "a/./b"} {
		if got, err := filename.Join("runs", name); err == nil {
			t.Errorf("%q: %s", name, got)
		}
	}
}

// FuzzJoin: whatever passes stays inside.
func FuzzJoin(f *testing.F) {
	f.Add("a/b")
	f.Add("../b")
	f.Add("C:..")
	f.Fuzz(func(t *testing.T, name string) {
		path, err := filename.Join("dir", name)
		if err == nil && (!filepath.IsLocal(path) || !strings.HasPrefix(path, "dir"+string(filepath.Separator))) {
			t.Errorf("%q leads to %q", name, path)
		}
	})
}
