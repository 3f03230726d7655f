package bounded

import (
	"bytes"
	"fmt"
)

// The bounds of a text in YAML. The parser takes time that grows with the square of most of these, and gigabytes for
// brackets within brackets, so it must not see more. They are ten times what the largest recipe has, and more.
const (
	mostYAML       = 256 * KiB
	mostYAMLLines  = 8192
	mostIndent     = 256  // columns, so as many levels at most
	mostBrackets   = 2048 // that open, wherever they close
	mostProperties = 1024 // & * !, which anchor, refer to and tag values
	mostIndicators = 4096 // in a line, of all characters that can separate or nest values
)

// YAML reports a text that a parser of YAML would take too long or too much memory for. It does not parse: a bracket in a
// quoted text counts as any other.
func YAML(text []byte) error {
	fail := func(n, most int, what string) error {
		return fmt.Errorf("it has %d %s, want at most %d: %w", n, what, most, ErrTooLarge)
	}
	if len(text) > mostYAML {
		return fail(len(text), mostYAML, "bytes")
	}
	if n := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")); n > mostYAMLLines {
		return fail(n, mostYAMLLines, "lines")
	}
	brackets, properties, line := 0, 0, 0
	for text := range bytes.SplitSeq(text, []byte("\n")) {
		line++
		if n := len(text) - len(bytes.TrimLeft(text, " \t")); n > mostIndent {
			return fail(n, mostIndent, fmt.Sprintf("blanks at the beginning of line %d", line))
		}
		indicators := 0
		for _, c := range text {
			switch c {
			case '[', '{':
				brackets++
			case '&', '*', '!':
				properties++
			case ']', '}', ',', ':', '?', '-', '|', '>', '%', '#', '"', '\'':
			default:
				continue
			}
			indicators++
		}
		if indicators > mostIndicators {
			return fail(indicators, mostIndicators, fmt.Sprintf("indicators in line %d", line))
		}
	}
	if brackets > mostBrackets {
		return fail(brackets, mostBrackets, "opening brackets")
	}
	if properties > mostProperties {
		return fail(properties, mostProperties, "anchors, aliases and tags")
	}
	return nil
}
