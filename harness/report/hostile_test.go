package report_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"harness.invalid/harness/report"
)

// TestFormulas: no cell of a CSV file is a formula, and numbers stay numbers.
func TestFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0", "@SUM(1)": "'@SUM(1)", "+x": "'+x", "-2+3": "'-2+3", "\t=1": "'=1", "-1e5x": "'-1e5x",
		"-1.5": "-1.5", "+1.78": "+1.78", "-3e-05": "-3e-05", "-": "-", "-Inf": "-Inf", "-1.2%": "-1.2%", "a=b": "a=b", "-.5": "-.5",
	} {
		s := &report.Sheet{Columns: []report.Column{{Name: "=name"}, {Name: "value"}}, Rows: []report.Row{{{Text: text}, {Value: -1.5}}}}
		var out strings.Builder
		if err := report.WriteSheet(&out, s, report.Options{Format: report.CSV}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(rows) != 2 || rows[0][0] != "'=name" || strings.TrimSpace(rows[1][0]) != want || rows[1][1] != "-1.5" {
			t.Errorf("%q: %q, %v", text, rows, err)
		}
	}
}

// TestCellsDoNotAct: a table has no control character but its own colours, whatever its cells say.
func TestCellsDoNotAct(t *testing.T) {
	s := &report.Sheet{Caption: "c", Columns: []report.Column{{Name: "n\x1b[2J"}, {Name: "v"}},
		Rows: []report.Row{{{Text: "\x1b[32mEQUIVALENT\x1b[0m\x1b]0;x\a"}, {Text: "bad", Mark: report.Bad}}}}
	for _, f := range []report.Format{report.Table, report.Markdown} {
		var out strings.Builder
		if err := report.WriteSheet(&out, s, report.Options{Format: f, Width: 80, Color: f == report.Table}); err != nil {
			t.Fatal(err)
		}
		shown := out.String()
		for _, c := range report.Colors {
			if c != "\x1b[32m" { // which no cell is marked with
				shown = strings.ReplaceAll(shown, c, "")
			}
		}
		if strings.ContainsAny(shown, "\x1b\a") || !strings.Contains(shown, `\x1b[32mEQUIVALENT`) {
			t.Errorf("%s: %q", f, shown)
		}
	}
}
