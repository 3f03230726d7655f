package foreign

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Split finds the command line with one of the scripts in a shell's text and splits it into words at blanks,
// respecting quotes and backslashes. A # at the start of a word begins a comment. A command continues after a
// backslash at the end of a line, and also if the next line begins with a dash, as in command lines copied without
// their backslashes. Pipes and redirections are not part of it. Variables set earlier in the text (export
// TASK_NAME=mrpc) are substituted, and ${NAME:-VALUE} is its value by default; others stay. CUDA_VISIBLE_DEVICES, if
// the text sets it, stands before the command. Without such a command Split returns all words.
func Split(text string) ([]string, error) {
	s := splitter{variables: map[string]string{}}
	text = blankLine.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n")
	if err := s.read([]rune(text)); err != nil {
		return nil, err
	}
	if len(s.found) > 1 {
		return nil, fmt.Errorf("there are %d commands that train: import one at a time", len(s.found))
	}
	if len(s.found) == 1 {
		return s.found[0], nil
	}
	return s.all, nil
}

// splitter is the state of Split.
type splitter struct {
	variables map[string]string
	command   []string // words so far
	redirects bool     // the next word is where output goes
	all       []string
	found     [][]string // commands with one of the scripts
}

// assignment is a word that sets a variable; reference is where one is used.
var (
	assignment = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)$`)
	reference  = regexp.MustCompile(`^(?:\{([A-Za-z_][A-Za-z0-9_]*|[0-9]+)(?::?-([^{}$]*))?\}|([A-Za-z_][A-Za-z0-9_]*))`)
	blankLine  = regexp.MustCompile(`\\[ \t]+\n`) // a backslash that was meant to end its line
	redirect   = regexp.MustCompile(`^[0-9&]*>>?(&?[0-9-])?`)
)

func (s *splitter) read(text []rune) error {
	var word strings.Builder
	var quote rune
	inside, quoted, newline := false, false, false
	end := func() {
		if inside {
			s.word(word.String(), quoted)
		}
		word.Reset()
		inside, quoted = false, false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if newline && !unicode.IsSpace(c) && c != '#' {
			if c != '-' {
				s.endCommand()
			}
			newline = false
		}
		switch {
		case c == '\\' && quote != '\'':
			if i++; i < len(text) && text[i] != '\n' {
				word.WriteRune(text[i])
				inside = true
			}
		case c == '$' && quote != '\'':
			inside = true
			word.WriteRune(c)
			if m := reference.FindStringSubmatch(string(text[i+1 : min(len(text), i+100)])); m != nil {
				v, ok := s.variables[m[1]+m[3]]
				if !ok && m[2] != "" {
					v, ok = strings.Trim(m[2], `"'`), true
				}
				if ok {
					old := word.String()
					word.Reset()
					word.WriteString(strings.TrimSuffix(old, "$") + v)
					i += len(m[0])
				}
			}
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '"' || c == '\'':
			quote, inside, quoted = c, true, true
		case c == '\n':
			end()
			newline = true
		case unicode.IsSpace(c):
			end()
		case c == ';' || c == '|' || c == '&' && !strings.HasSuffix(word.String(), ">"):
			end()
			s.endCommand()
		case c == '#' && !inside:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	if quote != 0 {
		return fmt.Errorf("a quote %c is not closed", quote)
	}
	end()
	s.endCommand()
	return nil
}

// word adds a word to the current command.
func (s *splitter) word(w string, quoted bool) {
	switch {
	case s.redirects:
		s.redirects = false
	case !quoted && redirect.MatchString(w):
		s.redirects = strings.HasSuffix(w, ">")
	default:
		s.command = append(s.command, w)
	}
}

// endCommand handles a complete command: one of the scripts, or assignments.
func (s *splitter) endCommand() {
	words := s.command
	s.command, s.redirects = nil, false
	s.all = append(s.all, words...)
	for _, w := range words {
		if isScript(w) || IsShellScript(w) {
			if devices := s.variables["CUDA_VISIBLE_DEVICES"]; devices != "" {
				words = append([]string{"CUDA_VISIBLE_DEVICES=" + devices}, words...)
			}
			s.found = append(s.found, words)
			return
		}
		if strings.ContainsAny(w, " \n") && assignment.FindString(w) == "" {
			// bash -c "torchrun ..."
			if inner, err := Split(w); err == nil && slices.ContainsFunc(inner, isScript) {
				s.found = append(s.found, append(slices.Clone(words[:max(0, slices.Index(words, w))]), inner...))
				return
			}
		}
	}
	if len(words) > 0 && words[0] == "export" {
		words = words[1:]
	}
	for _, w := range words {
		m := assignment.FindStringSubmatch(w)
		if m == nil {
			return
		}
		if strings.HasPrefix(w[len(m[1]):], "+=") {
			m[2] = s.variables[m[1]] + m[2]
		}
		s.variables[m[1]] = m[2]
	}
}
