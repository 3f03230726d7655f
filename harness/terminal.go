package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"harness.invalid/core/visible"
	"harness.invalid/harness/report"
)

// printer is where the program prints for people. Names, notes and errors have texts of files that others wrote, so no
// control character passes but the colours of tables, and those on standard output alone: a file cannot move the cursor
// of whoever looks at it, or set the title of the window.
type printer struct {
	visible.Writer
	terminal *os.File // nil: it goes to a file, or a pipe
}

func newPrinter(out io.Writer, keep ...string) *printer {
	p := &printer{Writer: visible.Writer{W: out, Keep: keep}}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal = f
	}
	return p
}

// output is how standard output is printed to: to a file or a pipe byte by byte, since it may be data.
func output(out io.Writer) io.Writer {
	if p := newPrinter(out, report.Colors...); p.terminal != nil {
		return p
	}
	return out
}

// terminalOf is the terminal that an output is shown on, nil where there is none.
func terminalOf(out io.Writer) *os.File {
	if p, ok := out.(*printer); ok {
		return p.terminal
	}
	return nil
}

// width is how many columns an output shows: the terminal's, or 0 where there is no terminal and lines may be long.
func width(out io.Writer) int {
	if f := terminalOf(out); f != nil {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	return 0
}

// color reports whether an output may have colours: a terminal's, unless NO_COLOR is set (no-color.org).
func color(out io.Writer) bool {
	return terminalOf(out) != nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// indent moves every line of a text to the right.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		b.WriteString("    " + line)
	}
	return b.String()
}
