package page_test

import (
	"bufio"
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"harness.invalid/harness/page"
	"harness.invalid/harness/series/seriestest"
)

// start serves a folder.
func start(t *testing.T, dir string) *httptest.Server {
	t.Helper()
	s := page.NewServer(page.InFolder(dir))
	s.Every = 10 * time.Millisecond
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

var link = regexp.MustCompile(`<a href="(/report\?[^"]+)">`)

// TestServer: the list links to each experiment, whose page is that of `harness report`.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	seriestest.Write(t, filepath.Join(dir, "a b&c"), 1, ipu, gpu)
	seriestest.Write(t, filepath.Join(dir, "second"), 1, ipu)
	if err := os.Mkdir(filepath.Join(dir, "broken"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken", "run.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	server := start(t, dir)
	status, list := get(t, server.URL)
	links := link.FindAllStringSubmatch(list, -1)
	if status != http.StatusOK || len(links) != 2 || !strings.Contains(list, "broken: run.json") {
		t.Fatalf("status %d, links %v, want 2 and a word on the broken run:\n%s", status, links, list)
	}
	for _, l := range links {
		status, text := get(t, server.URL+html.UnescapeString(l[1]))
		if status != http.StatusOK || !strings.Contains(text, `data-events="/events?in=`) || !strings.Contains(text, "<h2>Verdict</h2>") {
			t.Errorf("%s: status %d", l[1], status)
		}
	}
	for path, want := range map[string]int{
		"/report?in=nowhere&recipe=x&data=y": http.StatusNotFound, "/nothing": http.StatusNotFound,
		"/events?in=../..": http.StatusNotFound, "/events?in=/etc": http.StatusNotFound,
		"/report?in=../../etc&recipe=x&data=y": http.StatusNotFound,
	} {
		if status, _ := get(t, server.URL+path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
}

// TestRebinding: a server of this machine does not answer to other names.
func TestRebinding(t *testing.T) {
	server := start(t, t.TempDir())
	for host, want := range map[string]int{"evil.example": http.StatusForbidden, "localhost:1234": http.StatusOK,
		"127.0.0.1": http.StatusOK, "[::1]:80": http.StatusOK} {
		r, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("host %s: status %d, want %d", host, reply.StatusCode, want)
		}
	}
}

// TestEvents: whoever waits is told about each step that a run writes, and the page then has it.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	more := seriestest.Begun(t, dir, ipu, 1, 5)
	server := start(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events?in=.", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if kind := reply.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("content type %s", kind)
	}
	lines := bufio.NewScanner(reply.Body)
	wait := func() {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: change" {
				return
			}
		}
		t.Fatalf("no event: %v", lines.Err())
	}
	wait() // the first one, at once
	_, list := get(t, server.URL)
	address := server.URL + html.UnescapeString(link.FindStringSubmatch(list)[1])
	for _, until := range []int{6, 40} {
		more(until)
		wait()
		_, text := get(t, address)
		if d := data(t, text); len(d.Runs) != 1 || len(d.Runs[0].Steps.Steps) == 5 {
			t.Errorf("after %d steps the page has %d", until, len(d.Runs[0].Steps.Steps))
		}
	}
	_, text := get(t, address)
	if !strings.Contains(section(t, text, "standing"), "running</span> ipu/adamw, seed 1: squad, step 10 of 40") {
		t.Errorf("standing: %s", section(t, text, "standing"))
	}
}
