package fetch_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/harness/fetch"
)

// TestBombs: archives that unpack to far more than their own size, or to a hundred thousand files, are refused.
func TestBombs(t *testing.T) {
	zeros := strings.Repeat("\x00", 40<<20)
	many := map[string]string{}
	for i := range 1<<16 + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, archive := range map[string][]byte{
		"zeros":  zipped(t, map[string]string{"a": zeros, "b": zeros}),
		"files":  zipped(t, many),
		"device": zipped(t, map[string]string{"con.txt": "x"}), "control": zipped(t, map[string]string{"a\x1b[2Jb": "x"}),
	} {
		s := &server{t: t, files: map[string][]byte{"h/a.zip": archive}}
		dir := t.TempDir()
		_, err := s.start().Fetch(t.Context(), one(fetch.File{URL: "https://h/a.zip", Name: "a.zip", Unpack: "."}), dir)
		if err == nil {
			t.Errorf("%s: unpacked", name)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 3 { // the archive, its sum, and the lock
			t.Errorf("%s: %d files are left", name, len(left))
		}
	}
}

// TestTooLarge: a server cannot fill the disk, whatever length it states.
func TestTooLarge(t *testing.T) {
	for name, state := range map[string]func(w http.ResponseWriter){
		"stated": func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1000000") },
		"not":    func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	} {
		requests, sent := 0, 0
		endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			state(w)
			for r.Context().Err() == nil && sent < 1<<30 {
				n, err := w.Write(bytes.Repeat([]byte("x"), 1<<16))
				if sent += n; err != nil {
					return
				}
			}
		}))
		f := &fetch.Fetcher{Mirror: endless.URL, Wait: time.Millisecond}
		dir := t.TempDir()
		_, err := f.Fetch(t.Context(), one(fetch.File{URL: "https://h/a", Name: "a", Most: 1000}), dir)
		endless.Close()
		if !errors.Is(err, bounded.ErrTooLarge) || requests != 1 || sent >= 1<<30 {
			t.Errorf("%s: %v after %d requests and %d bytes", name, err, requests, sent)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "a*")); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
	}
}

// TestPasswordOfMirror: errors do not show the password in a mirror's address.
func TestPasswordOfMirror(t *testing.T) {
	f := &fetch.Fetcher{Mirror: "http://ci:s3cret@127.0.0.1:1/data?password=s3cret", Wait: time.Millisecond}
	var said strings.Builder
	f.Say = func(format string, args ...any) { fmt.Fprintf(&said, format, args...) }
	_, err := f.Fetch(t.Context(), one(fetch.File{URL: "https://h/a", Name: "a"}), t.TempDir())
	if err == nil || strings.Contains(err.Error()+said.String(), "s3cret") {
		t.Errorf("%v; %s", err, said.String())
	}
}
