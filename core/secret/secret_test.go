package secret_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"harness.invalid/core/secret"
)

func TestLocation(t *testing.T) {
	for text, want := range map[string]string{
		"runs/index.db":                              "runs/index.db",
		"postgres://ci@db.example/runs":              "postgres://ci@db.example/runs",
		"postgres://ci:pw@db.example:5432/runs":      "postgres://ci@db.example:5432/runs",
		"postgres://db/runs?user=ci&password=pw":     "postgres://db/runs",
		"postgresql://ci:p%zzw@db/runs?password=pw2": "postgresql://***@db/runs",
		"postgres://ci:pw@pw2@db/runs":               "postgres://***@db/runs",
		"https://ci:pw@mlflow.example/api#pw":        "https://ci@mlflow.example/api",
		"postgres://:pw@db/runs":                     "postgres://db/runs",
	} {
		got := secret.Location(text)
		if strings.Contains(got, "pw") || text != want && got == text {
			t.Errorf("%s: %s", text, got)
		}
		if got != want && !strings.Contains(text, "@pw2") { // which an URL may read as part of the password
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestHide(t *testing.T) {
	for _, text := range []string{
		"postgres://ci:s3cret@db/runs", "postgres://ci:s3cret%2F@db/runs", "postgres://db/runs?password=s3cret",
		"postgres://ci:s3cret%zz@db/runs",
		"postgres://db/runs?sslpassword=s3cret%21&x=y", "postgres://ci:a@s3cret@db/runs",
	} {
		_, parse := url.Parse(text + "%zz")
		for _, err := range []error{fmt.Errorf("dial %q: %w", text, fs.ErrNotExist), parse} {
			if err == nil {
				continue // a query may have that
			}
			shown := secret.Hide(err, text)
			if strings.Contains(shown.Error(), "s3cret") {
				t.Errorf("%s: %v", text, shown)
			}
			if errors.Is(err, fs.ErrNotExist) && !errors.Is(shown, fs.ErrNotExist) {
				t.Errorf("%s: what the error wraps is lost", text)
			}
		}
	}
	err := errors.New("password s3cret is wrong")
	if err := secret.Hide(err, "postgres://ci:s3cret@db/runs"); strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	if err := errors.New("x"); secret.Hide(err, "runs/index.db") != err || secret.Hide(nil, "a://b:c@d") != nil {
		t.Error("an error about a file is changed")
	}
}

// FuzzLocation: no password is shown, and text that is not an address stays as it is.
func FuzzLocation(f *testing.F) {
	f.Add("postgres://u:", "@db/runs?x=y")
	f.Add("postgres://db/runs?password=", "&x=y")
	f.Fuzz(func(t *testing.T, before, after string) {
		const password = "s3cretpassw0rd"
		if strings.Contains(before+after, "cretpass") {
			return
		}
		text := before + password + after
		_, rest, address := strings.Cut(text, "://")
		authority, query, _ := strings.Cut(rest, "?")
		inUser := strings.Contains(authority, ":"+password+"@") && strings.Count(authority, "@") == 1 &&
			!strings.ContainsAny(authority[:strings.Index(authority, "@")], "/#")
		if shown := secret.Location(text); strings.Contains(shown, password) && address &&
			(inUser || strings.Contains(query, "password="+password) && !strings.Contains(authority, password)) {
			t.Errorf("%q: %q", text, shown)
		}
	})
}
