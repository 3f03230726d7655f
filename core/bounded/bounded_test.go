package bounded_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"harness.invalid/core/bounded"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("12345"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := bounded.ReadFile(path, 5); err != nil || string(got) != "12345" {
		t.Errorf("a file as large as its limit: %q, %v", got, err)
	}
	if got, err := bounded.ReadFileIn(dir, "file", 5); err != nil || string(got) != "12345" {
		t.Errorf("a file in a folder: %q, %v", got, err)
	}
	for _, read := range []func() ([]byte, error){
		func() ([]byte, error) { return bounded.ReadFile(path, 4) },
		func() ([]byte, error) { return bounded.ReadFileIn(dir, "file", 4) },
	} {
		if got, err := read(); !errors.Is(err, bounded.ErrTooLarge) {
			t.Errorf("a file larger than its limit: %q, %v", got, err)
		}
	}
	if _, err := bounded.ReadFile(path+"2", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := bounded.ReadFileIn(dir, "file2", 5); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path+"2") {
		t.Errorf("a missing file in a folder: %v, want its whole path", err)
	}
	if _, err := bounded.ReadFile(dir, 1<<20); !errors.Is(err, bounded.ErrNotRegular) {
		t.Errorf("a folder: %v", err)
	}
}

// TestProc: the size of such a file is 0, whatever it holds.
func TestProc(t *testing.T) {
	const path = "/proc/self/status"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no /proc here")
	}
	if text, err := bounded.ReadFile(path, bounded.MiB); err != nil || len(text) < 100 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := bounded.ReadFile(path, 100); !errors.Is(err, bounded.ErrTooLarge) {
		t.Errorf("%v, want that it is too large", err)
	}
}

// TestLinkOutOfFolder: a stranger's folder has links to the reader's files.
func TestLinkOutOfFolder(t *testing.T) {
	secret, dir := filepath.Join(t.TempDir(), "secret"), t.TempDir()
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "run.json")); err != nil {
		t.Skip(err)
	}
	if text, err := bounded.ReadFileIn(dir, "run.json", 100); err == nil {
		t.Errorf("read %q through a link", text)
	}
	if text, err := bounded.ReadFileIn(dir, filepath.Join("..", filepath.Base(filepath.Dir(secret)), "secret"), 100); err == nil {
		t.Errorf("read %q above the folder", text)
	}
}

func TestDevice(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no /dev/zero")
	}
	if _, err := bounded.ReadFile("/dev/zero", 1<<20); !errors.Is(err, bounded.ErrNotRegular) {
		t.Errorf("%v", err)
	}
}

func TestReader(t *testing.T) {
	for size := range 10 {
		in := strings.Repeat("x", size)
		for _, r := range []io.Reader{
			strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in)),
		} {
			got, err := bounded.ReadAll(r, 5)
			if want := in[:min(size, 5)]; string(got) != want || errors.Is(err, bounded.ErrTooLarge) != (size > 5) || size <= 5 && err != nil {
				t.Errorf("%d bytes with a limit of 5: %q, %v", size, got, err)
			}
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("y", 200<<10)
	for _, c := range []struct {
		in   string
		most int
		want []string
		bad  bool
	}{
		{"", 3, nil, false},
		{"\n", 3, []string{"|"}, false},
		{"abc\nde", 3, []string{"abc|", "de"}, false},
		{"abc\nabcd\n", 3, []string{"abc|"}, true},
		{"abcd", 3, nil, true},
		{"a\n" + long + "\nb\n", len(long), []string{"a|", long + "|", "b|"}, false},
		{"a\n" + long + "\nb\n", len(long) - 1, []string{"a|"}, true},
		{long, len(long), []string{long}, false},
		{long, 100 << 10, nil, true},
	} {
		var got []string
		var failed error
		for line, err := range bounded.Lines(strings.NewReader(c.in), c.most) {
			if failed = err; err != nil {
				break
			}
			if line.Number != len(got)+1 {
				t.Errorf("line %d is numbered %d", len(got)+1, line.Number)
			}
			text := string(line.Text)
			if line.Whole {
				text += "|"
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") || errors.Is(failed, bounded.ErrTooLarge) != c.bad {
			t.Errorf("%.20q: %d lines, %v", c.in, len(got), failed)
		}
	}
}

// TestEndlessLine: a line of 10 GB takes no more memory than its limit.
func TestEndlessLine(t *testing.T) {
	read := 0
	endless := readerFunc(func(p []byte) (int, error) {
		read += len(p)
		return copy(p, bytes.Repeat([]byte("z"), len(p))), nil
	})
	for _, err := range bounded.Lines(endless, 1<<20) {
		if !errors.Is(err, bounded.ErrTooLarge) {
			t.Errorf("%v", err)
		}
	}
	if read > 2<<20 {
		t.Errorf("%d bytes were read before the line was refused, want about a MiB", read)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
