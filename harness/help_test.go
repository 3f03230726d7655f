package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFit: the help of every command fits 80 columns but for examples and words that are longer, and loses no word.
func TestFit(t *testing.T) {
	var out bytes.Buffer
	if code := execute([]string{"compare", "--help"}, strings.NewReader(""), &out, &out); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	text := out.String()
	if fit(text, 0) != text {
		t.Error("a pipe gets other lines")
	}
	for _, columns := range []int{80, 120} {
		fitted := fit(text, columns)
		if a, b := strings.Fields(fitted), strings.Fields(text); strings.Join(a, " ") != strings.Join(b, " ") {
			t.Errorf("%d columns have %d words, want %d", columns, len(a), len(b))
		}
		for line := range strings.SplitSeq(fitted, "\n") {
			if utf8.RuneCountInString(line) > columns && !strings.HasPrefix(line, "  harness ") && !strings.HasPrefix(line, "      --data") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
	}
	want := strings.ReplaceAll("  --seeds int   train|so|many|seeds", "|", "\n"+strings.Repeat(" ", 16))
	if got := fold("  --seeds int   train so many seeds", 20, 16); got != want {
		t.Errorf("folded:\n%s", got)
	}
}

// TestProse: what goes to a file or a pipe keeps its lines.
func TestProse(t *testing.T) {
	var out bytes.Buffer
	text := "  " + strings.Repeat("word ", 60) + "\n"
	if err := printProse(&out, text); err != nil || out.String() != text {
		t.Errorf("printed %q, error %v", out.String(), err)
	}
}
