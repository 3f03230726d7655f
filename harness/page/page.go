// Package page shows runs in a browser: one page that contains everything it needs and loads nothing, and a server
// of such pages, which follow runs in progress.
//
// A page begins with the answer in a sentence, and says which runs are not complete and why. What the answer rests on
// follows: a picture of each metric with its interval and margin, curves, times, what the arms' settings differ in, and
// questions that they answer differently; then all numbers, with the statistics folded away. Tables and pictures that do
// not change are made here. Curves are drawn in the browser by a script (curves.js, chart.js, page.js) from numbers that
// lie in the page.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"sync"

	"harness.invalid/harness/report"
	"harness.invalid/harness/series"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

var (
	//go:embed page.css
	style string
	//go:embed curves.js
	curvesJS string
	//go:embed chart.js
	chartJS string
	//go:embed page.js
	pageJS string
	//go:embed page.html
	body string
)

// script is the one script of a page. A function around it keeps its names to itself.
var script = "\"use strict\";\n(() => {\n" + curvesJS + "\n" + chartJS + "\n" + pageJS + "})();\n"

// policy is what a page may do: run this script, and ask its own server; nothing else is loaded from anywhere.
var policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; " +
	"form-action 'self'; script-src 'sha256-" + digest(script) + "'"

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"style":   func() template.CSS { return template.CSS(style) },
		"script":  func() template.JS { return template.JS(script) },
		"policy":  func() string { return policy },
		"counted": counted,
		"sheet": func(s *report.Sheet) (template.HTML, error) {
			var out bytes.Buffer
			err := report.WriteSheet(&out, s, report.Options{Format: report.HTML})
			return template.HTML(out.String()), err
		},
	}).Parse(body))
})

// page is what the template shows.
type page struct {
	Title, Recipe string
	Doc           string
	Facts         []string // a line of small facts below the title
	Events        string   // address of the events that tell that runs went on; "": the page is a file
	Home          string   // address of the list of runs; "": there is none

	Standing    standing
	Count       string // of verdicts, where there are too many sentences for the head of the page
	Sentences   []answer
	Pictures    []picture
	Data        *charts
	Speed       []*report.Sheet // times and rates
	Times       []phaseTimes
	Differences *report.Sheet
	Answers     []answers
	Table       template.HTML
	Runs        *report.Sheet
	Memory      *report.Sheet
	Recipes     []source
	Machines    *report.Sheet
}

// ManyRuns reports whether the list of runs is too long to stand open.
func (p *page) ManyRuns() bool { return len(p.Runs.Rows) > 12 }

// source is a recipe as text.
type source struct{ Name, Text string }

// Options are what a reader wants of a page.
type Options struct {
	// Modelled shows modelled figures, and the axis of modelled time, even where the model was never checked on such a
	// program.
	Modelled bool
}

// Write writes the page of runs of one recipe on the same data. The other arms are compared with that of the first
// run. The error is verdict.ErrIncomparable, with what differs, if the runs are of several experiments.
func Write(w io.Writer, records []*series.Record, o Options) error {
	p, err := newPage(records, o)
	if err != nil {
		return err
	}
	return p.write(w)
}

func (p *page) write(w io.Writer) error {
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, "report", p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func newPage(records []*series.Record, o Options) (*page, error) {
	runs := make([]*results.Run, len(records))
	for i, r := range records {
		runs[i] = r.Run
	}
	c, err := verdict.Compare(runs)
	if err != nil {
		return nil, err
	}
	// In the order of the comparison: by arm, then by seed.
	place := func(r *series.Record) int { return c.Place(r.Arm(), r.Seed) }
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b *series.Record) int { return cmp.Compare(place(a), place(b)) })

	first := records[0]
	p := &page{Title: title(c), Recipe: c.Recipe, Doc: first.Recipe.Doc, Facts: facts(c, records)}
	var table bytes.Buffer
	if err := report.Write(&table, c, report.Options{Format: report.HTML, Bare: true, Modelled: o.Modelled}); err != nil {
		return nil, err
	}
	p.Table = template.HTML(table.String())
	p.Standing = standingOf(records)
	p.Count, p.Sentences = answersOf(c)
	p.Pictures = pictures(c)
	p.Data = newCharts(c, records, o.Modelled || checked(c))
	p.Speed = report.Speed(c, report.Options{Modelled: o.Modelled})
	p.Times = times(c)
	p.Differences = differences(c, records)
	p.Memory = memory(c)
	if p.Answers, err = disagreements(c, records); err != nil {
		return nil, err
	}
	p.Runs = runsSheet(c, records)
	p.Machines = machines(records)
	if p.Recipes, err = sources(records); err != nil {
		return nil, err
	}
	return p, nil
}

// title names the experiment.
func title(c *verdict.Comparison) string {
	switch first := c.Arms[0].Arm; len(c.Arms) {
	case 1:
		return fmt.Sprintf("%s: %s", c.Recipe, first)
	case 2:
		return fmt.Sprintf("%s: %s against %s", c.Recipe, c.Arms[1].Arm, first)
	default:
		return fmt.Sprintf("%s: %d arms against %s", c.Recipe, len(c.Arms)-1, first)
	}
}
