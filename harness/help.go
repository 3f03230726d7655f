package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// fitHelp breaks the lines of --help between words where the terminal is narrower. Examples stay as they are: they are
// copied.
func fitHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(out)
		_, _ = io.WriteString(out, fit(text.String(), width(out)))
	})
}

// item is a line of a list in --help, up to the text on its right: a flag or a command.
var item = regexp.MustCompile(`^ +(-[^ ]|[a-z]).*?[^ ]  +`)

// fit breaks paragraphs and the right column of lists at columns; 0: nowhere.
func fit(text string, columns int) string {
	if columns == 0 {
		return text
	}
	var all, paragraph []string
	flush := func() {
		for _, line := range paragraph {
			if utf8.RuneCountInString(line) > columns {
				paragraph = []string{fold(strings.Join(paragraph, " "), columns, 0)}
				break
			}
		}
		all, paragraph = append(all, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		if left := item.FindString(line); left != "" && !strings.HasPrefix(line, "  harness ") {
			line = fold(line, columns, min(utf8.RuneCountInString(left), columns/2))
		}
		all = append(all, line)
	}
	flush()
	return strings.Join(all, "\n")
}

// fold breaks a line between words; what follows is indented.
func fold(line string, columns, indent int) string {
	var b strings.Builder
	for utf8.RuneCountInString(line) > columns {
		at, seen := -1, 0
		for i, r := range line {
			if r == ' ' && seen > indent && line[i-1] != ' ' && (seen <= columns || at < 0) {
				at = i
			}
			if seen++; seen > columns+1 && at >= 0 {
				break
			}
		}
		if at < 0 {
			break
		}
		b.WriteString(line[:at] + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	return b.String() + line
}

// printProse prints texts whose lines are broken between words where the terminal is narrower; what follows is indented
// by two more than the line.
func printProse(out io.Writer, text string) error {
	columns := width(out)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if columns > 0 {
			lines[i] = fold(line, columns, len(line)-len(strings.TrimLeft(line, " "))+2)
		}
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n"))
	return err
}
