// Package hint adds advice to an error: a line that says what to do about it, with commands that can be pasted into a
// shell.
package hint

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// advised is an error and what to do about it.
type advised struct {
	error
	advice string
}

func (a advised) Unwrap() error { return a.error }

// With adds a line to err that says what to do about it. The line is not part of err's message; see Of.
func With(err error, format string, args ...any) error {
	return advised{err, fmt.Sprintf(format, args...)}
}

// Of returns the outermost hint of err, or "".
func Of(err error) string {
	var a advised
	if errors.As(err, &a) {
		return a.advice
	}
	return ""
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./+:@%,=-]+$`)

// Quote returns word as a POSIX shell reads it: in single quotes where it has a character that a shell would interpret.
func Quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
