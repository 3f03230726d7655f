package page_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness.invalid/harness/page"
	"harness.invalid/harness/series/seriestest"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// TestServeIndex: the runs of an index are shown wherever their folders are, and one that begins later is told of and
// shown as well.
func TestServeIndex(t *testing.T) {
	arms := []seriestest.Arm{
		{Backend: "ipu", Precision: "fp16.16", F1: 80, StepSeconds: 0.01}, {Backend: "gpu-ref", Precision: "fp32", F1: 81, StepSeconds: 0.01},
	}
	x, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	put := func(dir string) {
		t.Helper()
		r, err := results.Open(dir)
		if err == nil {
			err = x.Put(t.Context(), r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second, third := t.TempDir(), t.TempDir(), t.TempDir()
	seriestest.Write(t, first, 1, arms...)
	seriestest.Write(t, second, 1, arms[0])
	for _, arm := range arms {
		put(filepath.Join(first, seriestest.Name(arm, 1)))
	}
	put(filepath.Join(second, seriestest.Name(arms[0], 1)))

	handler := page.NewServer(page.InIndex(x))
	handler.Every = 10 * time.Millisecond
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	get := func(path string) string {
		t.Helper()
		r, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v: %s", path, r.StatusCode, err, text)
		}
		return string(text)
	}
	if list := get("/"); strings.Count(list, "<article") != 2 || !strings.Contains(list, first) || !strings.Contains(list, second) {
		t.Errorf("want an experiment in %s and one in %s:\n%s", first, second, list)
	}

	wait := changes(t, server.URL)
	wait()
	more := seriestest.Begun(t, third, arms[0], 7, 5)
	put(filepath.Join(third, seriestest.Name(arms[0], 7)))
	wait()
	more(6)
	wait()
	if list := get("/"); !strings.Contains(list, third) || !strings.Contains(list, "<progress") {
		t.Errorf("the run that goes on is not shown:\n%s", list)
	}

	if err := os.RemoveAll(filepath.Join(second, seriestest.Name(arms[0], 1))); err != nil {
		t.Fatal(err)
	}
	if list := get("/"); strings.Contains(list, second) || !strings.Contains(list, "Of the index 1 run is not shown") {
		t.Errorf("a run whose folder is gone:\n%s", list)
	}
}

// changes follows the events of a server. It returns a function that waits for the next one that tells of a change.
func changes(t *testing.T, address string) (wait func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reply.Body.Close() })
	lines := bufio.NewScanner(reply.Body)
	return func() {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: change" {
				return
			}
		}
		t.Fatalf("no event: %v", lines.Err())
	}
}
