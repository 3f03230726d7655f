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

// indent moves every line of a text to the right.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		b.WriteString("    " + line)
	}
	return b.String()
}
