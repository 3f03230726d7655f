package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness.invalid/harness/report"
)

// inventory has what is awkward: characters that are commands in some format, a heading, leading blanks, values
// that are not text.
var inventory = &report.Sheet{
	Caption: "Runs & their <state>",
	Columns: []report.Column{{Name: "run"}, {Name: "F1, %", Key: "f1", Right: true}, {Name: "state"}},
	Rows: []report.Row{
		report.Texts("group_1", "", ""),
		{{Text: "  a|b \\ {c}"}, {Text: "-1.50", Value: -1.5}, {Text: "ok", Mark: report.Good}},
		{{Text: "  <script>alert(1)</script>"}, {Text: "2.00 ± 0.10", Value: 2},
			{Text: "~ lost, and it took a long time to find out", Mark: report.Bad}},
	},
	Notes: []string{"A note with 100% & more."},
}

func print(t *testing.T, s *report.Sheet, o report.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := report.WriteSheet(&out, s, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSheet(t *testing.T) {
	for _, c := range []struct {
		o    report.Options
		want string
	}{
		{report.Options{Width: 60}, `
Runs & their <state>

run                                F1, %  state
────────────────────────────────────────────────────────────
group_1
  a|b \ {c}                        -1.50  ok
  <script>alert(1)</script>  2.00 ± 0.10  ~ lost, and it
                                           took a long time
                                           to find out

A note with 100% & more.
`},
		{report.Options{Format: report.Markdown}, `
Runs & their <state>

| run                       |       F1, % | state                                       |
|:--------------------------|------------:|:--------------------------------------------|
| **group_1**               |             |                                             |
| a\|b \ {c}                |       -1.50 | ok                                          |
| <script>alert(1)</script> | 2.00 ± 0.10 | ~ lost, and it took a long time to find out |

A note with 100% & more.
`},
		{report.Options{Format: report.LaTeX}, `
% Runs & their <state>
% needs \usepackage{booktabs}
\begin{tabular}{lrl}
\toprule
run & F1, \% & state \\
\midrule
\textbf{group\_1} \\
\quad a|b \textbackslash{} \{c\} & $-$1.50 & ok \\
\quad <script>alert(1)</script> & 2.00 $\pm$ 0.10 & \textasciitilde{} lost, and it took a long time to find out \\
\bottomrule
\end{tabular}

A note with 100\% \& more.
`},
		{report.Options{Format: report.CSV}, `
run,f1,state
group_1,,
a|b \ {c},-1.5,ok
<script>alert(1)</script>,2,"~ lost, and it took a long time to find out"
`},
	} {
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), print(t, inventory, c.o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.o.Format, diff)
		}
	}
}

// TestColor: colours surround words, change nothing else, and appear only on request.
func TestColor(t *testing.T) {
	colored := print(t, inventory, report.Options{Width: 60, Color: true})
	if !strings.Contains(colored, "\x1b[32mok\x1b[0m") || !strings.Contains(colored, "\x1b[31m~ lost") {
		t.Errorf("no colours in\n%q", colored)
	}
	var plain strings.Builder
	for line := range strings.Lines(colored) {
		for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m"} {
			line = strings.ReplaceAll(line, code, "")
		}
		plain.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if diff := cmp.Diff(print(t, inventory, report.Options{Width: 60}), plain.String()); diff != "" {
		t.Errorf("without its colours (-want +got):\n%s", diff)
	}
	if s := print(t, inventory, report.Options{Format: report.Markdown, Color: true}); strings.Contains(s, "\x1b") {
		t.Errorf("Markdown has colours: %q", s)
	}
}

// TestSheetFormats: whatever the cells hold, every format can be parsed again.
func TestSheetFormats(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab \\{}$&#%_^~<>\"'|,;-+0é漢")))
		columns := rapid.IntRange(1, 4).Draw(rt, "columns")
		s := &report.Sheet{Caption: text.Draw(rt, "caption")}
		for range columns {
			s.Columns = append(s.Columns, report.Column{Name: text.Draw(rt, "name"), Right: rapid.Bool().Draw(rt, "right")})
		}
		for range rapid.IntRange(0, 4).Draw(rt, "rows") {
			r := make(report.Row, columns)
			for i := range r {
				r[i] = report.Cell{Text: text.Draw(rt, "cell"), Mark: report.Mark(rapid.IntRange(0, 4).Draw(rt, "mark"))}
			}
			s.Rows = append(s.Rows, r)
		}
		dec := xml.NewDecoder(strings.NewReader("<div>" + print(t, s, report.Options{Format: report.HTML}) + "</div>"))
		dec.Entity = xml.HTMLEntity
		cells := 0
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				rt.Fatalf("HTML: %v", err)
			}
			if e, ok := token.(xml.StartElement); ok && (e.Name.Local == "td" || e.Name.Local == "th") {
				cells++
			}
		}
		if want := columns * (len(s.Rows) + 1); cells != want {
			rt.Errorf("HTML has %d cells, want %d", cells, want)
		}
		if lines, err := csv.NewReader(strings.NewReader(print(t, s, report.Options{Format: report.CSV}))).ReadAll(); err != nil ||
			columns > 1 && len(lines) != len(s.Rows)+1 {
			rt.Errorf("CSV: %d lines, %v", len(lines), err)
		}
		var objects []map[string]any
		if err := json.Unmarshal([]byte(print(t, s, report.Options{Format: report.JSON})), &objects); err != nil || len(objects) != len(s.Rows) {
			rt.Errorf("JSON: %v", err)
		}
		_, tex, _ := strings.Cut(print(t, s, report.Options{Format: report.LaTeX}), "booktabs}\n") // what is above are comments
		depth := 0
		for i, r := range tex {
			if i > 0 && tex[i-1] == '\\' && (i < 2 || tex[i-2] != '\\') {
				continue
			}
			switch r {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
		if depth != 0 {
			rt.Errorf("LaTeX has braces without their partners:\n%s", tex)
		}
	})
}

func TestSheetErrors(t *testing.T) {
	if err := report.WriteSheet(io.Discard, &report.Sheet{Columns: []report.Column{{Name: "a"}},
		Rows: []report.Row{report.Texts("1", "2")}}, report.Options{}); err == nil {
		t.Error("a row with too many cells is printed")
	}
	if err := report.WriteSheet(io.Discard, inventory, report.Options{Format: "pdf"}); err == nil {
		t.Error("a format that is not known is printed")
	}
}
