package results

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is a run of four steps with a mark after the third, and an end unless it broke off.
func recorded(t *testing.T, finish bool) (dir string, mark Mark) {
	t.Helper()
	r := quick(t)
	dir = t.TempDir()
	w, err := Create(dir, identity(r), r, Environment{})
	for n := 1; n <= 4 && err == nil; n++ {
		if err = w.Step(step(n, float64(n))); n == 3 {
			mark = w.Mark()
		}
	}
	if err == nil && finish {
		err = w.Finish(Result{Status: Complete})
	} else if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, mark
}

func readSteps(dir string) error {
	run, err := Open(dir)
	if err != nil {
		return err
	}
	return read(run)
}

// read reads all steps of a run, in both ways.
func read(run *Run) error {
	for _, err := range run.Steps() {
		if err != nil {
			return err
		}
	}
	return run.Trace(func(*Step) {})
}

// TestFlippedBits flips a bit of every byte of a record in turn, or of every third. Reading it and going on with it both
// name the file, and neither changes it.
func TestFlippedBits(t *testing.T) {
	ended, _ := recorded(t, true)
	run, err := Open(ended)
	if err != nil {
		t.Fatal(err)
	}
	broken, mark := recorded(t, false)
	for _, c := range []struct {
		dir   string
		use   func(dir string) error
		lines int // up to the mark: those after it are written again
		every int // bytes: opening a record takes longer than reading it
	}{
		{ended, func(string) error { return read(run) }, 4, 1},
		{broken, func(dir string) error { _, err := Resume(dir, mark); return err }, 3, 3},
	} {
		path := filepath.Join(c.dir, stepsFile)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checked, line := 0, 1
		for at := range whole {
			if line > c.lines {
				break
			}
			if bit := at % 8; at%c.every == 0 {
				text := append([]byte(nil), whole...)
				text[at] ^= 1 << bit
				if err := os.WriteFile(path, text, 0o666); err != nil {
					t.Fatal(err)
				}
				err := c.use(c.dir)
				if err == nil {
					t.Fatalf("bit %d of byte %d, in line %d, was flipped, and nobody noticed", bit, at, line)
				}
				if !strings.Contains(err.Error(), stepsFile) {
					t.Fatalf("bit %d of byte %d: %v, want an error that names the file", bit, at, err)
				}
				if left, err := os.ReadFile(path); err != nil || string(left) != string(text) {
					t.Fatalf("bit %d of byte %d: the damaged file was changed", bit, at)
				}
				checked++
			}
			if whole[at] == '\n' {
				line++
			}
		}
		if checked < 200 {
			t.Errorf("%d bits were flipped, want more", checked)
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := readSteps(ended); err != nil {
		t.Error(err)
	}
}

// TestDamagedLines: lines that were left out, moved, doubled or cut off are noticed, by the number of the line.
func TestDamagedLines(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(lines []string) []string
		want string
	}{
		"number changed": {func(l []string) []string { l[1] = strings.Replace(l[1], `"loss":2`, `"loss":3`, 1); return l }, ":2:"},
		"left out":       {func(l []string) []string { return append(l[:1], l[2:]...) }, ":2:"},
		"moved":          {func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }, ":3:"},
		"doubled":        {func(l []string) []string { return append(l, l[3]) }, ":5:"},
		"last lost":      {func(l []string) []string { return l[:3] }, "ends after line 3, and the run ended after line 4"},
		"all lost":       {func([]string) []string { return nil }, "ends after line 0"},
		"sum lost":       {func(l []string) []string { l[2] = l[2][:strings.Index(l[2], sumBefore)] + "}\n"; return l }, ":3: it has no sum"},
	} {
		dir, _ := recorded(t, true)
		path := filepath.Join(dir, stepsFile)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := c.edit(strings.SplitAfter(strings.TrimSuffix(string(text), "\n")+"\n", "\n")[:4])
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o666); err != nil {
			t.Fatal(err)
		}
		err = readSteps(dir)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want damage of %s with %q", name, err, path, c.want)
		}
	}
}

// TestWithoutSums: a record of an earlier version is read, and goes on with lines that have sums.
func TestWithoutSums(t *testing.T) {
	dir, _ := recorded(t, false)
	path := filepath.Join(dir, stepsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bare strings.Builder
	for line := range strings.Lines(string(text)) {
		bare.WriteString(line[:strings.Index(line, sumBefore)] + "}\n")
	}
	if err := os.WriteFile(path, []byte(bare.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	w, err := Resume(dir, Mark{Steps: 4})
	if err == nil {
		err = errors.Join(w.Step(step(5, 5)), w.Close())
	}
	if err == nil {
		err = readSteps(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[10] ^= 1
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := readSteps(dir); err == nil {
		t.Error("a line without a sum was changed before one with a sum, and nobody noticed")
	}
}
