package host

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// Bounds on what is passed on of a plugin's output. A plugin that prints more is neither stopped nor slowed down.
const (
	passedLineBytes = 64 << 10 // the rest of a longer line is cut off
	passedBurst     = 4 << 20  // bytes that are passed on however fast they come
	passedRate      = 64 << 10 // bytes a second that are passed on beyond that
)

// flow passes on what a plugin prints, as it comes and within bounds. Lines beyond them are dropped whole, and their
// number is said where they are missing.
type flow struct {
	sink io.Writer
	now  func() time.Time

	room    float64 // bytes that may be passed on now; below zero if the last line took more than there was
	updated time.Time

	line     int  // bytes of the current line so far
	cut      bool // the current line was longer than passedLineBytes
	dropping bool // the current line is dropped

	droppedLines, droppedBytes int // since it was last said
}

func newFlow(sink io.Writer) *flow {
	return &flow{sink: sink, now: time.Now, room: passedBurst, updated: time.Now()}
}

// write passes on a part of the output. It ignores errors of the sink: a full disk there must not look like a broken
// plugin.
func (f *flow) write(b []byte) {
	now := f.now()
	f.room = min(passedBurst, f.room+now.Sub(f.updated).Seconds()*passedRate)
	f.updated = now
	var passed []byte
	for len(b) > 0 {
		part, rest := b, b[len(b):]
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			part, rest = b[:i+1], b[i+1:]
		}
		b = rest
		passed = f.appendPart(passed, part)
	}
	if len(passed) > 0 {
		_, _ = f.sink.Write(passed)
	}
}

// appendPart adds what is passed on of a part of one line.
func (f *flow) appendPart(passed, part []byte) []byte {
	if f.line == 0 {
		f.cut, f.dropping = false, f.room <= 0
		if f.dropping {
			f.droppedLines++
		} else {
			passed = f.appendDropped(passed)
		}
	}
	before := len(passed)
	switch left := passedLineBytes - f.line; {
	case f.dropping:
		f.droppedBytes += len(part)
	case f.cut:
	case len(part) > left:
		f.cut = true
		passed = fmt.Appendf(append(passed, part[:left]...), " ... [cut: the line is longer than %d KiB]\n", passedLineBytes>>10)
	default:
		passed = append(passed, part...)
	}
	f.room -= float64(len(passed) - before)
	f.line += len(part)
	if part[len(part)-1] == '\n' {
		f.line = 0
	}
	return passed
}

// appendDropped says how much was dropped since it was last said.
func (f *flow) appendDropped(passed []byte) []byte {
	if f.droppedLines == 0 {
		return passed
	}
	passed = fmt.Appendf(passed, "[%d lines with %d bytes dropped: the plugin prints more than %d KiB a second]\n",
		f.droppedLines, f.droppedBytes, passedRate>>10)
	f.droppedLines, f.droppedBytes = 0, 0
	return passed
}

// flush says what was dropped at the end of the output.
func (f *flow) flush() {
	if said := f.appendDropped(nil); said != nil {
		_, _ = f.sink.Write(said)
	}
}
