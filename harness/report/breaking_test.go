package report

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPieces: words are broken where they may be, and the pieces are the whole word.
func TestPieces(t *testing.T) {
	digest := strings.Repeat("0a1b2c3d", 8)
	for text, want := range map[string][]string{
		"runs/mine/ipu-adamw-seed1": {"runs/", "mine/", "ipu-", "adamw-", "seed1"},
		"data.generated.dev_count":  {"data.", "generated.", "dev_", "count"},
		"2026-11-24 0.25":           {"2026-11-24", "0.25"},
		digest:                      {digest[:16], digest[16:32], digest[32:48], digest[48:]},
		"signal: interrupt":         {"signal:", "interrupt"},
	} {
		if got := pieces(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestNarrow: a table of paths and digests fits 80 columns and loses no character.
func TestNarrow(t *testing.T) {
	s := &Sheet{Columns: []Column{{Name: "what"}, {Name: "one"}, {Name: "other"}},
		Rows: []Row{Texts("data digest", strings.Repeat("0a1b2c3d", 8), strings.Repeat("4e5f6a7b", 8)),
			Texts("  folder", "runs/of/the/whole/night/ipu-adamw-seed1", "runs/of/the/whole/night/gpu-ref-adamw-seed1")}}
	for _, columns := range []int{80, 120, 200} {
		var out strings.Builder
		if err := WriteSheet(&out, s, Options{Width: columns}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%d columns: %d in %q", columns, n, line)
			}
		}
		if whole := strings.Contains(out.String(), strings.Repeat("0a1b2c3d", 8)); whole != (columns == 200) {
			t.Errorf("%d columns: a digest is whole: %v\n%s", columns, whole, out.String())
		}
	}
}

// TestStacked: columns that don't fit stand one below the other; cells that say nothing are left out.
func TestStacked(t *testing.T) {
	s := &Sheet{Columns: []Column{{Name: "id"}, {Name: "backend"}, {Name: "tags"}, {Name: "seed", Right: true}},
		Rows: []Row{Texts("0a1b", "gpuref", "", "1"), Texts("2c3d", "ipu", "nightly", "2")}}
	var out strings.Builder
	if err := WriteSheet(&out, s, Options{Width: 20}); err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(out.String(), "─\n")
	if want := "0a1b\n  backend  gpuref\n  seed     1\n2c3d\n  backend  ipu\n  tags     nightly\n  seed     2\n"; rows != want {
		t.Errorf("stacked:\n%s\nwant\n%s", rows, want)
	}
	out.Reset()
	s.Rows[0][1].Text = strings.Repeat("runs/mine/", 12)
	if err := WriteSheet(&out, s, Options{}); err != nil || !strings.Contains(out.String(), s.Rows[0][1].Text) {
		t.Errorf("in a pipe, words are broken:\n%s%v", out.String(), err)
	}
}
