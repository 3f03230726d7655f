package host

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// Bounds on what is kept of a plugin's standard error.
const (
	keptLines     = 20
	keptLineBytes = 400
)

// lastWords passes on what a plugin prints, and keeps its last lines for errors.
type lastWords struct {
	mu    sync.Mutex
	flow  *flow
	lines []string // at most keptLines
	count int      // complete lines so far
	rest  []byte   // beginning of a line that is not complete
}

func newLastWords(sink io.Writer) *lastWords {
	if sink == nil {
		sink = io.Discard
	}
	return &lastWords{flow: newFlow(sink)}
}

// Write implements io.Writer.
func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flow.write(b)
	n := len(b)
	for {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		if room := keptLineBytes - len(w.rest); room > 0 {
			w.rest = append(w.rest, line[:min(room, len(line))]...)
		}
		if !ok {
			return n, nil
		}
		if text := strings.TrimRight(strings.ToValidUTF8(string(w.rest), "?"), " \r"); text != "" {
			w.count++
			if w.lines = append(w.lines, text); len(w.lines) > keptLines {
				w.lines = w.lines[1:]
			}
		}
		w.rest = w.rest[:0]
		b = rest
	}
}

// finish says what was not passed on at the end of the output.
func (w *lastWords) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flow.flush()
}

// mark is the current position in the output, for since.
func (w *lastWords) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// since returns the kept lines after a mark.
func (w *lastWords) since(mark int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	if n := w.count - mark; n < len(lines) {
		lines = lines[len(lines)-max(0, n):]
	}
	lines = append([]string(nil), lines...)
	if len(w.rest) > 0 {
		lines = append(lines, strings.ToValidUTF8(string(w.rest), "?"))
	}
	return lines
}
