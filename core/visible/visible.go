// Package visible shows text that others wrote without letting it act: control characters, which move a terminal's cursor,
// change its title or answer for its user, and characters that reverse or hide text come out as Go would write them,
// \x1b and \u202e.
package visible

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text is text with all such characters escaped but tabs and ends of lines.
func Text(text string) string {
	i := 0
	for i < len(text) {
		c, n := utf8.DecodeRuneInString(text[i:])
		if hidden(c, n) {
			break
		}
		i += n
	}
	if i == len(text) {
		return text // nearly always
	}
	out := append(make([]byte, 0, len(text)+16), text[:i]...)
	for i < len(text) {
		c, n := utf8.DecodeRuneInString(text[i:])
		if hidden(c, n) {
			out = escape(out, text[i:i+n], c)
		} else {
			out = append(out, text[i:i+n]...)
		}
		i += n
	}
	return string(out)
}

// hidden tells a character that is escaped; n is its length in bytes, 1 for what is no UTF-8.
func hidden(c rune, n int) bool {
	switch {
	case c == '\n' || c == '\t':
		return false
	case c < 0x7f:
		return c < ' '
	case c == utf8.RuneError:
		return n == 1
	}
	return unicode.In(c, unicode.Cc, unicode.Bidi_Control) || c == '\u2028' || c == '\u2029'
}

func escape(to []byte, text string, c rune) []byte {
	const digits = "0123456789abcdef"
	if c > 0xff && c != utf8.RuneError {
		return append(to, '\\', 'u', digits[c>>12&15], digits[c>>8&15], digits[c>>4&15], digits[c&15])
	}
	if c == utf8.RuneError {
		c = rune(text[0])
	}
	return append(to, '\\', 'x', digits[c>>4&15], digits[c&15])
}

// Writer passes on what is written to it as Text has it. Keep are sequences that pass as they are, such as the colours of
// a table.
type Writer struct {
	W    io.Writer
	Keep []string

	writing sync.Mutex // processes and goroutines share a terminal
	held    []byte     // the beginning of a character
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	text := append(w.held, p...)
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if b := text[len(text)-i:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				end -= i
			}
			break
		}
	}
	if _, err := io.WriteString(w.W, w.show(string(text[:end]))); err != nil {
		return 0, err
	}
	w.held = bytes.Clone(text[end:])
	return len(p), nil
}

func (w *Writer) show(text string) string {
	var out strings.Builder
	for {
		at, found := len(text), ""
		for _, k := range w.Keep {
			if i := strings.Index(text, k); i >= 0 && i < at {
				at, found = i, k
			}
		}
		out.WriteString(Text(text[:at]))
		out.WriteString(found)
		if text = text[at+len(found):]; text == "" {
			return out.String()
		}
	}
}
