package fetch_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/harness/fetch"
)

// server serves files under host and path as a mirror does, and can break off, fail and forget.
type server struct {
	t        *testing.T
	files    map[string][]byte // by host and path
	requests []string          // host and path, and the range that was asked for
	breaks   int               // answers that break off in the middle
	fails    int               // answers of 503
	noRanges bool
	weak     bool // tags
	stalls   int  // answers that stop in the middle and hold the connection
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/mirror/")
	s.requests = append(s.requests, strings.TrimSpace(name+" "+r.Header.Get("Range")))
	data, ok := s.files[name]
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case s.fails > 0:
		s.fails--
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	}
	sum := sha256.Sum256(data)
	tag := fmt.Sprintf("%q", hex.EncodeToString(sum[:4]))
	if s.weak {
		tag = "W/" + tag
	}
	w.Header().Set("ETag", tag)
	if s.noRanges {
		r.Header.Del("Range")
	}
	if s.breaks > 0 {
		s.breaks--
		w = &broken{ResponseWriter: w, left: len(data) / 3}
	}
	if s.stalls > 0 {
		s.stalls--
		w = &broken{ResponseWriter: w, left: len(data) / 3, hold: r.Context().Done()}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// broken breaks the connection after some bytes.
type broken struct {
	http.ResponseWriter
	left int
	hold <-chan struct{} // the connection until then; nil: not at all
}

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.ResponseWriter.Write(p[:b.left])
		b.ResponseWriter.(http.Flusher).Flush()
		if b.hold != nil {
			<-b.hold
		}
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

func (s *server) start() *fetch.Fetcher {
	h := httptest.NewServer(s)
	s.t.Cleanup(h.Close)
	return &fetch.Fetcher{Mirror: h.URL + "/mirror", Client: h.Client(), Wait: time.Millisecond}
}

var text = bytes.Repeat([]byte("all the world's a stage\n"), 1<<15)

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func one(f fetch.File) *fetch.Set { return &fetch.Set{Name: "set", Files: []fetch.File{f}} }

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFetch(t *testing.T) {
	s := &server{t: t, files: map[string][]byte{"example.org/a/text.txt": text}, fails: 2, breaks: 2}
	f := s.start()
	var last int64
	f.Progress = func(name string, done, total int64) {
		if name != "sub/text.txt" || total != int64(len(text)) || done < 0 || done > total {
			t.Errorf("progress of %s: %d of %d", name, done, total)
		}
		last = done
	}
	dir := t.TempDir()
	set := one(fetch.File{URL: "https://example.org/a/text.txt", Name: "sub/text.txt", SHA256: sum(text)})
	paths, err := f.Fetch(t.Context(), set, dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "sub", "text.txt")}; !slices.Equal(paths, want) {
		t.Errorf("paths are %q, want %q", paths, want)
	}
	if got := read(t, paths[0]); !bytes.Equal(got, text) {
		t.Error("the file is another one")
	}
	// Two answers of 503, two that break off, each after a third of the file, and what follows on the last.
	third := len(text) / 3
	want := []string{"example.org/a/text.txt", "example.org/a/text.txt", "example.org/a/text.txt",
		fmt.Sprintf("example.org/a/text.txt bytes=%d-", third), fmt.Sprintf("example.org/a/text.txt bytes=%d-", 2*third)}
	if !slices.Equal(s.requests, want) {
		t.Errorf("requests were\n%q, want\n%q", s.requests, want)
	}
	if last != int64(len(text)) {
		t.Errorf("at the end the progress is %d of %d", last, len(text))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "sub", "*.part*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	// What is there is not loaded again; what was damaged is.
	s.requests = nil
	if _, err := f.Fetch(t.Context(), set, dir); err != nil || len(s.requests) > 0 {
		t.Errorf("once more: %v, requests %q", err, s.requests)
	}
	if err := os.WriteFile(paths[0], text[1:], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), set, dir); err != nil || len(s.requests) != 1 || !bytes.Equal(read(t, paths[0]), text) {
		t.Errorf("a damaged file: %v, requests %q", err, s.requests)
	}
}

// TestResume continues the download of a process that ended, unless the server's file has changed since, the server
// supports no ranges, or its tag promises nothing.
func TestResume(t *testing.T) {
	other := append([]byte("a new edition\n"), text...)
	for _, test := range []struct {
		name  string
		then  func(*server)
		want  []byte
		bytes string // asked for at last
	}{
		{"same file", func(*server) {}, text, fmt.Sprintf("bytes=%d-", len(text)/3)},
		{"another file", func(s *server) { s.files["example.org/f"] = other }, other, fmt.Sprintf("bytes=%d-", len(text)/3)},
		{"no ranges", func(s *server) { s.noRanges = true }, text, fmt.Sprintf("bytes=%d-", len(text)/3)},
		{"weak tags", func(*server) {}, text, ""},
	} {
		s := &server{t: t, files: map[string][]byte{"example.org/f": text}, breaks: 1, weak: test.name == "weak tags"}
		f := s.start()
		ctx, cancel := context.WithCancel(t.Context())
		f.Wait = time.Hour
		f.Say = func(string, ...any) { cancel() } // instead of another attempt
		dir := t.TempDir()
		set := one(fetch.File{URL: "https://example.org/f", Name: "f"})
		if _, err := f.Fetch(ctx, set, dir); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: error is %v, want %v", test.name, err, context.Canceled)
		}
		if n := len(read(t, filepath.Join(dir, "f.part"))); n != len(text)/3 {
			t.Errorf("%s: %d bytes are there, want a third of %d", test.name, n, len(text))
		}
		test.then(s)
		f.Say = nil
		if _, err := f.Fetch(t.Context(), set, dir); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := read(t, filepath.Join(dir, "f")); !bytes.Equal(got, test.want) {
			t.Errorf("%s: the file is another one", test.name)
		}
		if last := s.requests[len(s.requests)-1]; last != strings.TrimSpace("example.org/f "+test.bytes) {
			t.Errorf("%s: the last request is %q, want one for %q", test.name, last, test.bytes)
		}
	}
}

func TestSums(t *testing.T) {
	s := &server{t: t, files: map[string][]byte{"example.org/f": text}}
	f := s.start()
	dir := t.TempDir()
	// A sum that is known must be right, and what came is not kept.
	known := one(fetch.File{URL: "https://example.org/f", Name: "f", SHA256: sum(text[1:])})
	if _, err := f.Fetch(t.Context(), known, dir); !errors.Is(err, fetch.ErrSum) {
		t.Errorf("error is %v, want %v", err, fetch.ErrSum)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 || entries[0].Name() != ".lock" {
		t.Errorf("%v is left, want the lock alone", entries)
	}
	// The first download of a file without a known sum says what the next one must be.
	unknown := one(fetch.File{URL: "https://example.org/f", Name: "f"})
	if _, err := f.Fetch(t.Context(), unknown, dir); err != nil {
		t.Fatal(err)
	}
	if got := string(read(t, filepath.Join(dir, "SHA256SUMS"))); got != sum(text)+"  f\n" {
		t.Errorf("SHA256SUMS is %q", got)
	}
	s.files["example.org/f"] = text[1:]
	if err := os.Remove(filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), unknown, dir); !errors.Is(err, fetch.ErrSum) || !strings.Contains(err.Error(), "remove its line") {
		t.Errorf("error is %v, want %v and what to do", err, fetch.ErrSum)
	}

	// A list that the makers publish: Wikipedia's, with the date of the dump in place of "latest".
	data := []byte("a dump")
	const dump = "xwiki-latest-pages-articles.xml.bz2"
	file := fetch.File{URL: "https://example.org/" + dump, Name: dump, Sums: "https://example.org/sums"}
	s.files["example.org/xwiki-latest-pages-articles.xml.bz2"] = data
	for list, want := range map[string]string{
		fmt.Sprintf("%x  xwiki-20251101-pages-articles.xml.bz2\n", sha1.Sum(data)): "",
		fmt.Sprintf("%x  xwiki-20251101-pages-articles.xml.bz2\n", sha1.Sum(text)): "wrong sum",
		fmt.Sprintf("%x  xwiki-20251101-stub-pages-articles.xml.bz2\n", sha1.Sum(data)) +
			fmt.Sprintf("%x  xwiki-20251101-pages-articles-multistream.xml.bz2\n", sha1.Sum(data)): "has no sum of it",
		"12ab  xwiki-20251101-pages-articles.xml.bz2\n": "of no known kind",
	} {
		s.files["example.org/sums"] = []byte("0000  xwiki-20251101-site-info.json\n" + list)
		_, err := f.Fetch(t.Context(), one(file), t.TempDir())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("list %q: error is %v, want %q", list, err, want)
		}
	}
}

// TestStall: a server that stops sending is asked again for the rest.
func TestStall(t *testing.T) {
	s := &server{t: t, files: map[string][]byte{"example.org/f": text}, stalls: 1}
	f := s.start()
	f.Patience = 50 * time.Millisecond
	var said []string
	f.Say = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	dir := t.TempDir()
	if _, err := f.Fetch(t.Context(), one(fetch.File{URL: "https://example.org/f", Name: "f"}), dir); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "f")), text) || len(said) == 0 || !strings.Contains(said[0], "nothing came for 50ms") {
		t.Errorf("said %q", said)
	}
}

// TestWholePart: a part that turns out to be the whole file is not downloaded again.
func TestWholePart(t *testing.T) {
	s := &server{t: t, files: map[string][]byte{"example.org/f": text}}
	f := s.start()
	file := one(fetch.File{URL: "https://example.org/f", Name: "f", Sums: "https://example.org/sums"})
	dir := t.TempDir()
	if _, err := f.Fetch(t.Context(), file, dir); err == nil || !strings.Contains(err.Error(), "404") {
		t.Fatalf("without the list of sums: %v", err)
	}
	s.files["example.org/sums"] = fmt.Appendf(nil, "%x  f\n", sha1.Sum(text))
	s.requests = nil
	if _, err := f.Fetch(t.Context(), file, dir); err == nil || !strings.Contains(err.Error(), "has no sum of it") {
		t.Errorf("error is %v", err)
	}
	want := []string{fmt.Sprintf("example.org/f bytes=%d-", len(text)), "example.org/sums"}
	if !slices.Equal(s.requests, want) || len(read(t, filepath.Join(dir, "f.part"))) != len(text) {
		t.Errorf("requests %q, want %q and the part as it was", s.requests, want)
	}
}

// TestLocked: only one process at a time downloads a file.
func TestLocked(t *testing.T) {
	s := &server{t: t, files: map[string][]byte{"example.org/f": text}}
	f := s.start()
	dir := t.TempDir()
	unlock, err := durable.Lock(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Fetch(t.Context(), one(fetch.File{URL: "https://example.org/f", Name: "f"}), dir)
	if !errors.Is(err, durable.ErrLocked) || len(s.requests) > 0 {
		t.Errorf("error is %v after %d requests, want %v", err, len(s.requests), durable.ErrLocked)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestErrors(t *testing.T) {
	s := &server{t: t, files: map[string][]byte{"example.org/f": text}}
	f := s.start()
	_, err := f.Fetch(t.Context(), one(fetch.File{URL: "https://example.org/g", Name: "g"}), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), f.Mirror+"/example.org/g answers 404") || len(s.requests) != 1 {
		t.Errorf("a file that is not there: %v after %d requests, want one", err, len(s.requests))
	}
	s.fails = 100
	_, err = f.Fetch(t.Context(), one(fetch.File{URL: "https://example.org/f", Name: "f"}), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "503") || len(s.requests) != 6 {
		t.Errorf("a server that never answers: %v after %d requests, want five more", err, len(s.requests))
	}
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, text)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestArchives(t *testing.T) {
	s := &server{t: t, files: map[string][]byte{
		"example.org/good.zip": zipped(t, map[string]string{"CoLA/dev.tsv": "a\t1\n", "CoLA/": "", "__MACOSX/CoLA/._dev.tsv": "x"}),
		"example.org/evil.zip": zipped(t, map[string]string{"../evil.txt": "x"}),
	}}
	f := s.start()
	dir := t.TempDir()
	paths, err := f.Fetch(t.Context(), one(fetch.File{URL: "https://example.org/good.zip", Name: "good.zip", Unpack: "."}), dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "CoLA", "dev.tsv")}; !slices.Equal(paths, want) || string(read(t, paths[0])) != "a\t1\n" {
		t.Errorf("paths are %q, want %q", paths, want)
	}
	dir = filepath.Join(t.TempDir(), "in")
	_, err = f.Fetch(t.Context(), one(fetch.File{URL: "https://example.org/evil.zip", Name: "evil.zip", Unpack: "sub"}), dir)
	if err == nil || !strings.Contains(err.Error(), "../evil.txt") {
		t.Errorf("error is %v, want the file that would lie outside", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "evil.txt")); err == nil {
		t.Error("a file was written outside of the folder")
	}
}

// TestSets: names and addresses are complete, and no two files have the same place.
func TestSets(t *testing.T) {
	for _, s := range fetch.Sets("simple") {
		names := map[string]bool{}
		if s.Doc == "" || s.License == "" || !strings.HasPrefix(s.Home, "https://") || len(s.Files) == 0 {
			t.Errorf("%s has no doc, licence, page or files: %+v", s.Name, s)
		}
		for _, f := range s.Files {
			if !strings.HasPrefix(f.URL, "https://") || names[f.Name] || f.Name == "" || len(f.SHA256) != 0 && len(f.SHA256) != 64 ||
				(f.Unpack != "") != strings.HasSuffix(f.Name, ".zip") {
				t.Errorf("%s: %+v", s.Name, f)
			}
			names[f.Name] = true
		}
	}
}
