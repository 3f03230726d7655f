package report

import (
	"html/template"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"harness.invalid/results/verdict"
)

// htmlTemplates produce fragments to put into any page: a table, or a comparison. Marks become classes, which the
// page may colour.
var htmlTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"class": func(m Mark, right bool) string {
			if right {
				return strings.TrimSpace(markNames[m] + " right")
			}
			return markNames[m]
		},
		"trim": strings.TrimSpace,
		"in":   func(text string) bool { return leading(text) != "" },
	}).Parse(`
{{- define "sheet" -}}
<table class="sheet">
{{with .Caption}}<caption>{{.}}</caption>
{{end}}<thead><tr>
{{- range .Columns}}{{if .Name}}<th scope="col"{{if .Right}} class="right"{{end}}>{{.Name}}</th>
{{- else}}<td></td>{{end}}{{end}}</tr></thead>
<tbody>
{{$sheet := .}}{{range $row := .Rows}}<tr{{if .Heading}} class="heading"{{end}}>
{{- range $i, $cell := .}}
{{- if eq $i 0}}<th scope="row{{if $row.Heading}}group{{end}}"{{if in .Text}} class="in"{{end}}>{{trim .Text}}</th>
{{- else}}<td{{with class .Mark ($sheet.RightAt $i)}} class="{{.}}"{{end}}>{{.Text}}</td>{{end}}{{end}}</tr>
{{end}}</tbody>
</table>
{{range .Notes}}<p class="note">{{.}}</p>
{{end}}{{end}}

{{- define "comparison" -}}
<div class="comparison">
{{range .Sentences}}<p class="answer">{{.}}</p>
{{end}}{{range .Sheets}}{{template "sheet" .}}{{end}}
{{- if .Verdicts}}<details><summary>Verdicts in words{{if .Statistics}}, and statistics{{end}}</summary>
{{range .Verdicts}}<p>{{.Heading}}</p>
<ul>
{{range .Lines}}<li>{{.}}</li>
{{end}}</ul>
{{end}}{{range .Statistics}}{{template "sheet" .}}{{end}}</details>
{{end}}{{range .Remarks}}<p class="note">{{.}}</p>{{end}}
{{with .Notes}}<ol class="notes">
{{range .}}<li>{{.}}</li>
{{end}}</ol>
{{end}}</div>
{{end}}`))
})

// RightAt reports whether a column is right-aligned.
func (s *Sheet) RightAt(i int) bool { return s.Columns[i].Right }

// armsAbreast is how many arms a table of HTML has side by side, the first one among them: so many fit on paper.
const armsAbreast = 4

// abreast are the arms of the table in groups that begin with the first one.
func (t *table) abreast() (groups [][]int) {
	if len(t.Arms) == 1 {
		return [][]int{{0}}
	}
	for others := range slices.Chunk(t.all()[1:], armsAbreast-1) {
		groups = append(groups, append([]int{0}, others...))
	}
	return groups
}

// Speed has the times and rates of a comparison alone, measured and modelled as in Write, for as many arms at a time as fit side by
// side.
func Speed(c *verdict.Comparison, o Options) (sheets []*Sheet) {
	t := newTable(c, o)
	none := true
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool {
		if strings.HasPrefix(r.quantity, "measured_") || strings.HasPrefix(r.quantity, "modelled_") {
			none = false
			return false
		}
		return r.quantity != "format" && r.quantity != "optimizer" // tell arms apart
	})
	if none {
		return nil
	}
	for _, arms := range t.abreast() {
		sheets = append(sheets, t.sheet(arms, &footnotes{}, false))
	}
	sheets[len(sheets)-1].Notes = t.remarks()
	return sheets
}

func writeHTML(out *strings.Builder, c *verdict.Comparison, o Options) error {
	t := newTable(c, o)
	foot := newFootnotes(c)
	var sheets []*Sheet
	for _, arms := range t.abreast() {
		sheets = append(sheets, t.sheet(arms, foot, true))
	}
	sheets[0].Caption = title(c)
	var sentences []string
	for i := range c.Comparisons {
		if !o.Bare {
			sentences = append(sentences, c.Comparisons[i].Sentence)
		}
	}
	return htmlTemplates().ExecuteTemplate(out, "comparison", struct {
		Sentences  []string
		Sheets     []*Sheet
		Verdicts   []said
		Statistics []*Sheet
		Remarks    []string
		Notes      []string
	}{sentences, sheets, verdicts(c), statisticsSheets(c, 0), t.remarks(), foot.texts()})
}

// latexEscapes covers the ten characters that TeX takes for commands, and those of tables for which its fonts have
// other names.
var latexEscapes = strings.NewReplacer(
	`\`, `\textbackslash{}`, `{`, `\{`, `}`, `\}`, `$`, `\$`, `&`, `\&`, `#`, `\#`, `%`, `\%`, `_`, `\_`, `^`, `\textasciicircum{}`,
	`~`, `\textasciitilde{}`,
	`±`, `$\pm$`, `×`, `$\times$`, `Δ`, `$\Delta$`, `≤`, `$\leq$`, `≥`, `$\geq$`, `—`, `---`, `–`, `--`,
)

// latexText escapes text for TeX. Numbers with a sign are set in math mode, so that a minus is not a hyphen.
func latexText(text string) string {
	in := utf8.RuneCountInString(leading(text))
	text = strings.TrimSpace(text)
	escaped := latexEscapes.Replace(text)
	if len(text) > 1 && (text[0] == '-' || text[0] == '+') && text[1] >= '0' && text[1] <= '9' {
		escaped = "$" + text[:1] + "$" + latexEscapes.Replace(text[1:])
	}
	if strings.HasPrefix(text, "x ") {
		escaped = `$\times$` + latexEscapes.Replace(text[1:])
	}
	if in > 0 {
		escaped = `\quad ` + escaped
	}
	return escaped
}

// writeLaTeX prints a tabular with the rules of booktabs.
func (s *Sheet) writeLaTeX(out *strings.Builder) {
	if s.Caption != "" {
		out.WriteString("% " + strings.Join(strings.Fields(s.Caption), " ") + "\n")
	}
	out.WriteString("% needs \\usepackage{booktabs}\n\\begin{tabular}{")
	for _, c := range s.Columns {
		if c.Right {
			out.WriteByte('r')
		} else {
			out.WriteByte('l')
		}
	}
	out.WriteString("}\n\\toprule\n")
	line := func(cells []string) { out.WriteString(strings.Join(cells, " & ") + ` \\` + "\n") }
	cells := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		cells[i] = latexText(c.Name)
	}
	line(cells)
	out.WriteString("\\midrule\n")
	for i, r := range s.Rows {
		if r.Heading() {
			if i > 0 {
				out.WriteString("\\addlinespace\n")
			}
			line([]string{`\textbf{` + latexText(r[0].Text) + `}`})
			continue
		}
		for j, c := range r {
			cells[j] = latexText(c.Text)
		}
		line(cells)
	}
	out.WriteString("\\bottomrule\n\\end{tabular}\n")
	for _, n := range s.Notes {
		out.WriteString("\n" + latexText(n) + "\n")
	}
}
