package fetch

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestNamed(t *testing.T) {
	s, err := Named("wikipedia", "simple")
	if err != nil || !strings.Contains(s.Files[0].URL, "/simplewiki/") {
		t.Errorf("%+v, %v", s, err)
	}
	m, err := Named("bert-base-uncased", "en")
	if err != nil || len(m.Files) != 4 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, f := range m.Files { // pinned by revision and sum
		if len(f.SHA256) != 64 || !strings.Contains(f.URL, "/bert-base-uncased/resolve/86b5e093") || !strings.HasSuffix(f.URL, "/"+f.Name) {
			t.Errorf("%+v is not pinned", f)
		}
	}
	if _, err := Named("squd", "en"); err == nil || !strings.Contains(err.Error(), "did you mean squad?") {
		t.Errorf("a wrong name: %v", err)
	}
	for text, ok := range map[string]bool{"en": true, "be-tarask": true, "../x": false, "": false, "E": false} {
		if err := CheckLanguage(text); (err == nil) != ok {
			t.Errorf("language %q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"": true, "https://a.example/b": true, "ftp://a.example": false, "https://": false, "a": false} {
		if err := CheckMirror(text); (err == nil) != ok {
			t.Errorf("mirror %q: %v", text, err)
		}
	}
}

func TestFolder(t *testing.T) {
	t.Setenv("HARNESS_DATA", "mine")
	if dir, err := Folder(""); err != nil || dir != "mine" {
		t.Errorf("with $HARNESS_DATA: %s, %v", dir, err)
	}
	if dir, err := Folder("given"); err != nil || dir != "given" {
		t.Errorf("a given one: %s, %v", dir, err)
	}
	t.Setenv("HARNESS_DATA", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	if dir, err := Folder(""); err != nil || filepath.Base(dir) != "data" {
		t.Errorf("by default: %s, %v", dir, err)
	}
}
