package visible_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"harness.invalid/core/visible"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"größe 语言 \U0001f600\n\ta":     "größe 语言 \U0001f600\n\ta",
		"\x1b]0;pwned\a":               `\x1b]0;pwned\x07`,
		"a\rb\x00\x7f":                 `a\x0db\x00\x7f`,
		"\u009b31m":                    `\x9b31m`, // CSI in one character
		"\xff\x9b":                     `\xff\x9b`,
		"abc\u202efdp.exe\u2066\u2069": `abc\u202efdp.exe\u2066\u2069`,
		"\ufffd":                       "\ufffd",
	} {
		if got := visible.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestWriter: whatever the pieces that a text is written in, and only what is kept passes.
func TestWriter(t *testing.T) {
	const text = "a\x1b[32mgrün\x1b[0m \x1b[2J语\xff"
	want := "a\x1b[32mgrün\x1b[0m \\x1b[2J语\\xff"
	for size := range len(text) {
		var out strings.Builder
		w := &visible.Writer{W: &out, Keep: []string{"\x1b[32m", "\x1b[0m"}}
		if size > 0 {
			w.Keep = nil
		}
		for rest := text; rest != ""; {
			n := len(rest)
			if size > 0 {
				n = min(size, n)
			}
			if m, err := w.Write([]byte(rest[:n])); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		if _, err := w.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		expect := want
		if size > 0 {
			expect = strings.ReplaceAll(want, "\x1b", `\x1b`)
		}
		if got := out.String(); got != expect+"\n" {
			t.Errorf("in pieces of %d: %q, want %q", size, got, expect)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[2J")
	f.Add("\xe2\x80")
	f.Fuzz(func(t *testing.T, text string) {
		got := visible.Text(text)
		if !utf8.ValidString(got) {
			t.Errorf("%q: %q is not UTF-8", text, got)
		}
		for _, c := range got {
			if unicode.IsControl(c) && c != '\n' && c != '\t' {
				t.Errorf("%q: %q has %q", text, got, c)
			}
		}
	})
}
