package host

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestFlow prints far more than is passed on: the beginning comes through, a line says how much was dropped, and output
// goes on when there is room again.
func TestFlow(t *testing.T) {
	var sink bytes.Buffer
	f, now := newFlow(&sink), time.Now()
	f.now = func() time.Time { return now }
	line := []byte(strings.Repeat("x", 1023) + "\n")
	const lines = 3 * passedBurst / 1024
	for range lines {
		f.write(line)
	}
	if sink.Len() != passedBurst {
		t.Errorf("%d bytes are passed on at once, want %d", sink.Len(), passedBurst)
	}
	sink.Reset()
	now = now.Add(time.Second)
	for range 100 {
		f.write(line)
	}
	said, rest, _ := strings.Cut(sink.String(), "\n")
	if want := "[8192 lines with 8388608 bytes dropped: the plugin prints more than 64 KiB a second]"; said != want {
		t.Errorf("a second later it says %q, want %q", said, want)
	}
	if len(rest) != passedRate {
		t.Errorf("after a second %d bytes more are passed on, want %d", len(rest), passedRate)
	}
	sink.Reset()
	f.flush()
	f.flush()
	if got := sink.String(); !strings.HasPrefix(got, "[36 lines with 36864 bytes") || strings.Count(got, "\n") != 1 {
		t.Errorf("at the end it says %q, want 36 lines once", got)
	}
}

// TestEndlessLine: only the beginning of a line without an end is passed on, as a line.
func TestEndlessLine(t *testing.T) {
	var sink bytes.Buffer
	f := newFlow(&sink)
	for range 1000 {
		f.write(bytes.Repeat([]byte("y"), 100_000))
	}
	if n := sink.Len(); n > passedLineBytes+100 || !strings.HasSuffix(sink.String(), "y ... [cut: the line is longer than 64 KiB]\n") {
		t.Errorf("%d bytes are passed on, ending in %q", n, sink.Bytes()[max(0, n-60):])
	}
	f.write([]byte("\nnext\n"))
	if !strings.HasSuffix(sink.String(), "KiB]\nnext\n") {
		t.Errorf("the next line is not passed on")
	}
}
