package hint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"testing"

	"harness.invalid/harness/hint"
)

func TestWith(t *testing.T) {
	err := fmt.Errorf("open: %w", hint.With(fs.ErrNotExist, "make %s", "it"))
	if got := hint.Of(err); got != "make it" {
		t.Errorf("the hint is %q, want make it", got)
	}
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "open: file does not exist" {
		t.Errorf("the error became %v", err)
	}
	if got := hint.Of(fs.ErrExist); got != "" {
		t.Errorf("an error without a hint has %q", got)
	}
}

// TestQuote lets a shell read each word back.
func TestQuote(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for _, word := range []string{"a=b/c.d", "", "two words", "it's", "$HOME", `a\b"c`, "*", "a\nb"} {
		got, err := exec.Command(sh, "-c", "printf %s "+hint.Quote(word)).Output()
		if err != nil || string(got) != word {
			t.Errorf("%q comes back as %q, %v", word, got, err)
		}
	}
}
