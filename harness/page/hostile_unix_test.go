//go:build unix

package page_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"harness.invalid/harness/page"
	"harness.invalid/harness/series/seriestest"
)

// TestFIFO: one in a stranger's run takes nothing from the pages of other runs.
func TestFIFO(t *testing.T) {
	dir := t.TempDir()
	seriestest.Write(t, filepath.Join(dir, "good"), 1, ipu)
	for _, name := range []string{"run.json", "recipe.yaml", "environment.json", "steps.jsonl", "result.json"} {
		bad := filepath.Join(dir, "bad-"+name)
		seriestest.Write(t, bad, 1, ipu)
		path := filepath.Join(bad, seriestest.Name(ipu, 1), name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			t.Skip(err)
		}
	}
	status, list := get(t, start(t, dir).URL)
	if links := link.FindAllString(list, -1); status != http.StatusOK || len(links) != 1 || strings.Count(list, "is a FIFO") != 5 {
		t.Errorf("status %d, links %v, want that of the good run and words on the others:\n%s", status, links, list)
	}
}

// TestSecretsOnPages: a stranger's recipe extends or links to a file of the reader, whose lines no page shows.
func TestSecretsOnPages(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("root:$6$hash:19000:0:99999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, change := range map[string]func(path string) error{
		"extends": func(path string) error { return os.WriteFile(path, []byte("extends: "+secret+"\n"), 0o666) },
		"link":    func(path string) error { return os.Symlink(secret, path) },
	} {
		seriestest.Write(t, filepath.Join(dir, name), 1, ipu)
		path := filepath.Join(dir, name, seriestest.Name(ipu, 1), "recipe.yaml")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
	}
	status, list := get(t, start(t, dir).URL)
	if status != http.StatusOK || strings.Contains(list, "$6$hash") || strings.Count(list, "recipe.yaml") < 2 {
		t.Errorf("status %d, want words on two runs without a line of the secret:\n%s", status, list)
	}
}

// TestManyReaders: each reader of events costs a look at all folders a second.
func TestManyReaders(t *testing.T) {
	dir := t.TempDir()
	seriestest.Write(t, dir, 1, ipu)
	server := start(t, dir)
	open, refused := 0, 0
	for range 80 {
		r, err := http.Get(server.URL + "/events")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Body.Close() })
		switch r.StatusCode {
		case http.StatusOK:
			open++
		case http.StatusServiceUnavailable:
			refused++
		}
	}
	if open != page.MostWaiting || refused != 80-page.MostWaiting {
		t.Errorf("%d are told of progress and %d refused, want %d", open, refused, page.MostWaiting)
	}
	if status, _ := get(t, server.URL); status != http.StatusOK {
		t.Errorf("the list: status %d", status)
	}
}
