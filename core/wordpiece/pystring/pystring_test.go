package pystring

import (
	"slices"
	"testing"
)

// TestLower: the results are those of Python 3.11.
func TestLower(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"Plain ASCII Z", "plain ascii z"},
		{"Straße ÉÑ", "straße éñ"},
		{"İstanbul", "i̇stanbul"},
		{"ΟΔΟΣ", "οδος"},
		{"ΟΔΟΣ ΣΑΣ", "οδος σας"},
		{"Σ", "σ"},
		{"ΑΣΑ", "ασα"},
		{"Α.Σ.", "α.ς."},
		{"Α.ΣΑ", "α.σα"},
		{"ΑΣ'Α", "ασ'α"},
		{"ΑΣ-Α", "ας-α"},
		{"1Σ", "1σ"},
		{"ΑΣ1", "ας1"},
		{"Α\u0301Σ\u0301", "α\u0301ς\u0301"},
	} {
		if got := Lower(c.in); got != c.want {
			t.Errorf("Lower(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestFields(t *testing.T) {
	got := Fields(" a\u00a0b\x1cc\u2028d\v\u3000e\u200bf ")
	if want := []string{"a", "b", "c", "d", "e\u200bf"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Fields("a\u0085b\x1d\x1e\x1fc"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q, want a, b and c", got)
	}
}
