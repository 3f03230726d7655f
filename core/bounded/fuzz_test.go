package bounded_test

import (
	"bytes"
	"strings"
	"testing"

	"harness.invalid/core/bounded"
)

// FuzzLines: the lines of a text are those between its ends of lines, up to the first that is too long.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbc\n\nd"), uint8(3))
	f.Add(bytes.Repeat([]byte("a"), 100), uint8(99))
	f.Fuzz(func(t *testing.T, text []byte, most uint8) {
		want := strings.SplitAfter(string(text), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		n := 0
		for line, err := range bounded.Lines(bytes.NewReader(text), int(most)) {
			trimmed := strings.TrimSuffix(want[n], "\n")
			if (err != nil) != (len(trimmed) > int(most)) {
				t.Fatalf("%q within %d: line %d: %v", text, most, n+1, err)
			}
			if err != nil {
				return
			}
			if string(line.Text) != trimmed || line.Whole != (trimmed != want[n]) || line.Number != n+1 {
				t.Errorf("%q: line %d is %q, %v", text, n+1, line.Text, line.Whole)
			}
			n++
		}
		if n != len(want) {
			t.Errorf("%q within %d: %d lines, want %d", text, most, n, len(want))
		}
	})
}
