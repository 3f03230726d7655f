// Terminal draws the first rows of a recorded terminal as SVG:
//
//	script -q -c 'stty cols 80; harness report runs/mine --format table' typescript
//	go run ./docs/_gen/terminal -rows 19 '$ harness report runs/mine --format table' <typescript >docs/figures/terminal.svg
//
// It knows what harness writes: colours, bold, and the cursor's way up to a line that is written again.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
)

// cell is a character on the screen, and the codes of its colours.
type cell struct {
	char  rune
	style string
}

// screen is what a terminal shows.
type screen struct {
	lines    [][]cell
	row, col int
	style    string // SGR parameters since the last reset
}

const columns = 80

func main() {
	rows := flag.Int("rows", 0, "draw so many rows from the top; 0: all")
	flag.Parse()
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var s screen
	for _, prompt := range flag.Args() {
		s.write(prompt + "\r\n")
	}
	var kept []string
	for _, line := range strings.SplitAfter(string(text), "\n") {
		if !strings.HasPrefix(line, "Script started on ") && !strings.HasPrefix(line, "Script done on ") { // script's own
			kept = append(kept, line)
		}
	}
	s.write(strings.Join(kept, ""))
	if *rows > 0 && *rows < len(s.lines) {
		s.lines = s.lines[:*rows]
	}
	out := bufio.NewWriter(os.Stdout)
	s.draw(out)
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// write shows a text.
func (s *screen) write(text string) {
	in := []rune(text)
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case c == '\r':
			s.col = 0
		case c == '\n':
			s.row++
		case c == '\x1b' && i+1 < len(in) && in[i+1] == '[':
			end := i + 2
			for end < len(in) && !(in[end] >= '@' && in[end] <= '~') {
				end++
			}
			if end < len(in) {
				s.control(string(in[i+2:end]), in[end])
			}
			i = end
		case c >= ' ':
			if s.col == columns {
				s.row, s.col = s.row+1, 0
			}
			for len(s.lines) <= s.row {
				s.lines = append(s.lines, nil)
			}
			for len(s.lines[s.row]) <= s.col {
				s.lines[s.row] = append(s.lines[s.row], cell{' ', ""})
			}
			s.lines[s.row][s.col] = cell{c, s.style}
			s.col++
		}
	}
}

// control obeys a control sequence.
func (s *screen) control(parameters string, command rune) {
	n, err := strconv.Atoi(parameters)
	if err != nil {
		n = 1
	}
	switch command {
	case 'A':
		s.row = max(0, s.row-n)
	case 'J', 'K':
		if s.row < len(s.lines) {
			s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
			if command == 'J' {
				s.lines = s.lines[:s.row+1]
			}
		}
	case 'm':
		if parameters == "" || parameters == "0" {
			s.style = ""
		} else {
			s.style += ";" + parameters
		}
	}
}

// fill is the class of a style.
func fill(style string) string {
	var classes []string
	for _, code := range strings.Split(strings.Trim(style, ";"), ";") {
		if name := map[string]string{"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "34": "l", "36": "c"}[code]; name != "" {
			classes = append(classes, name)
		}
	}
	return strings.Join(classes, " ")
}

// draw writes the screen, a text for each line, whose parts of one style are spans of a fixed width.
func (s *screen) draw(w io.Writer) {
	const wide, high, margin = 8.4, 18.0, 14.0
	width, height := columns*wide+2*margin, float64(len(s.lines))*high+2*margin
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">
<title>harness in a terminal</title>
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d7dae0;white-space:pre}
.b{font-weight:bold}.d{fill:#8b93a1}.r{fill:#ff8a80}.g{fill:#7ee0a0}.y{fill:#f2cc60}.l{fill:#8ab4ff}.c{fill:#7fdbe6}</style>
<rect width="100%%" height="100%%" rx="8" fill="#1c1f26"/>
`, width, height, width, height)
	for row, line := range s.lines {
		for from := 0; from < len(line); {
			to := from + 1
			for to < len(line) && line[to].style == line[from].style {
				to++
			}
			var b strings.Builder
			for _, c := range line[from:to] {
				b.WriteRune(c.char)
			}
			if strings.TrimSpace(b.String()) != "" {
				fmt.Fprintf(w, `<text class="%s" x="%.1f" y="%.1f" textLength="%.1f" xml:space="preserve">%s</text>`+"\n", fill(line[from].style),
					margin+float64(from)*wide, margin+float64(row+1)*high-4, float64(to-from)*wide, html.EscapeString(b.String()))
			}
			from = to
		}
	}
	fmt.Fprintln(w, "</svg>")
}
