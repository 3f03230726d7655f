package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDataFetch loads the vocabularies from a local server, whose files are not the published ones, and a dump that
// has its sum.
func TestDataFetch(t *testing.T) {
	dump := []byte("<mediawiki/>")
	const sum = "9a9f3bba9f2ec9e5a3d5e7c8d1f2b0a4c6e8d0f2"
	files := map[string]string{
		"dumps.wikimedia.org/simplewiki/latest/simplewiki-latest-pages-articles.xml.bz2": string(dump),
		"dumps.wikimedia.org/simplewiki/latest/simplewiki-latest-sha1sums.txt":           sum + "  simplewiki-20251101-pages-articles.xml.bz2\n",
		"huggingface.co/google-bert/bert-base-uncased/resolve/main/vocab.txt":            "[PAD]\n",
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(text))
	}))
	defer s.Close()
	dir := t.TempDir()
	run := func(args ...string) (code int, out, errOut string) {
		var o, e bytes.Buffer
		code = execute(append([]string{"data", "fetch", "--mirror", s.URL, "--out", dir, "--quiet"}, args...), strings.NewReader(""), &o, &e)
		return code, o.String(), e.String()
	}
	code, _, errOut := run("wikipedia", "--language", "simple")
	if code != exitError || !strings.Contains(errOut, "wrong sum") || !strings.Contains(errOut, "Licence: CC BY-SA") {
		t.Errorf("a dump with another sum: %d, %s", code, errOut)
	}
	files["dumps.wikimedia.org/simplewiki/latest/simplewiki-latest-sha1sums.txt"] = "SUM  simplewiki-20251101-pages-articles.xml.bz2\n"
	_, _, errOut = run("wikipedia", "--language", "simple")
	if !strings.Contains(errOut, "no known kind") {
		t.Errorf("a sum that is none: %s", errOut)
	}
	files["dumps.wikimedia.org/simplewiki/latest/simplewiki-latest-sha1sums.txt"] = dumpSum + "  simplewiki-20251101-pages-articles.xml.bz2\n"
	code, out, errOut := run("wikipedia", "--language", "simple")
	path := filepath.Join(dir, "wikipedia", "simplewiki-latest-pages-articles.xml.bz2")
	if text, err := os.ReadFile(path); code != exitOK || err != nil || !bytes.Equal(text, dump) || out != path+"\n" {
		t.Errorf("%d, %v, printed %q, %s", code, err, out, errOut)
	}
	const published = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
	if code, _, errOut := run("vocab"); code != exitError || !strings.Contains(errOut, "want "+published) {
		t.Errorf("a vocabulary that is not the published one: %d, %s", code, errOut)
	}
	if code, _, errOut := run("squd"); code != exitError || !strings.Contains(errOut, "did you mean squad?") {
		t.Errorf("a wrong name: %d, %s", code, errOut)
	}
	if code, _, errOut := run("squad", "--language", "../x"); code != exitError || !strings.Contains(errOut, "--language") {
		t.Errorf("a wrong language: %d, %s", code, errOut)
	}
}

// dumpSum is what sha1sum prints for <mediawiki/>.
const dumpSum = "de89ad78d41f632ac80e91d277443a96e027a3cf"
