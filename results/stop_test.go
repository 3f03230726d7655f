package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestState: a run is running while its writer holds the folder, says why it was stopped, forgets that when it goes on,
// and broke off if its writer is gone without a word.
func TestState(t *testing.T) {
	r := quick(t)
	dir := t.TempDir()
	want := func(status Status, reason string) {
		t.Helper()
		run, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, why := run.State(); got != status || !strings.HasPrefix(why, reason) || why != "" && reason == "" {
			t.Errorf("the run is %s: %.80s, want %s: %s", got, why, status, reason)
		}
	}
	w, err := Create(dir, identity(r), r, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	want(Running, "")
	if err := w.Stop(Stop{Status: Failed, Reason: strings.Repeat("ü", mostReason)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want(Failed, "üü")
	if w, err = Resume(dir, Mark{}); err != nil {
		t.Fatal(err)
	}
	want(Running, "")
	if err := w.Close(); err != nil { // without a word, as a process that is killed
		t.Fatal(err)
	}
	want(BrokenOff, "no process writes there any more")
	if err := os.WriteFile(filepath.Join(dir, stopFile), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), stopFile) {
		t.Errorf("a damaged %s: error is %v", stopFile, err)
	}
	if err := os.Remove(filepath.Join(dir, stopFile)); err != nil {
		t.Fatal(err)
	}
	if w, err = Resume(dir, Mark{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(Result{Status: Complete}); err != nil {
		t.Fatal(err)
	}
	want(Complete, "")
}
