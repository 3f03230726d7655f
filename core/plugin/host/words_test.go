package host

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLastWords(t *testing.T) {
	var sink bytes.Buffer
	w := newLastWords(&sink)
	fmt.Fprint(w, "one\n\ntw")
	fmt.Fprint(w, "o\r\n")
	if got, want := w.since(0), []string{"one", "two"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	mark := w.mark()
	if got := w.since(mark); len(got) != 0 {
		t.Errorf("lines after the mark: %q, want none", got)
	}
	fmt.Fprint(w, "three, unfinished")
	if got, want := w.since(mark), []string{"three, unfinished"}; !slices.Equal(got, want) {
		t.Errorf("lines after the mark: %q, want %q", got, want)
	}
	// A plugin that prints without end must not fill the host's memory.
	fmt.Fprint(w, strings.Repeat("x", 1<<20), "\xff\n")
	hundred := ""
	for i := range 100 {
		hundred += fmt.Sprintf("line %d\n", i)
	}
	fmt.Fprint(w, hundred)
	got := w.since(0)
	if len(got) != keptLines || got[keptLines-1] != "line 99" || got[0] != "line 80" {
		t.Errorf("kept %d lines, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	if n := sink.Len(); n < passedLineBytes || n > passedLineBytes+2000 || !strings.HasSuffix(sink.String(), "KiB]\n"+hundred) {
		t.Errorf("the sink got %d bytes, want the beginning of the long line and all others", n)
	}
	if got := w.since(mark); len(got) != keptLines {
		t.Errorf("%d lines after a mark long ago, want the %d that are kept", len(got), keptLines)
	}
}
