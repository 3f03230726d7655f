package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// width is how many columns an output shows: the terminal's, or 0 where there is no terminal and lines may be long.
func width(out io.Writer) int {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	return 0
}

// color reports whether an output may have colours: a terminal's, unless NO_COLOR is set (no-color.org).
func color(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// indent moves every line of a text to the right.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		b.WriteString("    " + line)
	}
	return b.String()
}
