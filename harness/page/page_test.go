package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/core/durable"
	"harness.invalid/harness/page"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

var (
	ipu = seriestest.Arm{Backend: "ipu", Precision: "fp16.16", F1: 70, StepSeconds: 0.2, Skip: 35}
	gpu = seriestest.Arm{Backend: "gpu-ref:fp16", Precision: "fp16", F1: 82, StepSeconds: 0.1}
)

func write(t *testing.T, records []*series.Record) string {
	t.Helper()
	var out bytes.Buffer
	if err := page.Write(&out, records, page.Options{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// section is the part of a page that has an id.
func section(t *testing.T, html, id string) string {
	t.Helper()
	_, after, ok := strings.Cut(html, `<section id="`+id+`"`)
	if !ok {
		t.Fatalf("the page has no section %s", id)
	}
	text, _, _ := strings.Cut(after, "</section>")
	return text
}

// TestPage: what a page says, section by section.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	html := write(t, seriestest.Write(t, dir, 3, ipu, gpu))
	for id, wanted := range map[string][]string{
		"verdict": {`<span class="arm">gpu-ref:fp16/adamw</span> <span class="badge good">DIFFERENT, better</span>`, "squad F1, %",
			"difference to ipu/adamw", "&#43;12.29, 90% interval", "phase1 masked LM loss, nats", "EQUIVALENT"},
		"table":       {"<caption>Recipe invented", `<th scope="row" class="in">F1, %</th>`, "steps to F1 50"},
		"time":        {"ipu/adamw", "optimizer", "evaluation", "setup", "measured sequences/s", "Measured times are wall time"},
		"differences": {`<th scope="row">backend</th><td>ipu</td><td>gpu-ref</td>`, "fp16.16"},
		"answers":     {"both exactly right", "&lt;b&gt;wrong&lt;/b&gt;", "<mark>"},
		"runs":        {"complete", "ipu-adamw-seed3", "70", "3.0 GiB", "20.0 MiB"},
		"recipe":      {"name: invented", "all runs", "Made up, for tests"},
		"environment": {
			"Abacus 3000", "16.0 GiB", "SHA-256 abababababababab", "0.50 to 0.50",
		},
	} {
		text := section(t, html, id)
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("section %s has no %q:\n%s", id, want, text)
			}
		}
	}
	// The answer comes before anything else but the title.
	_, after, _ := strings.Cut(html, "</h1>")
	want := `<p class="answer good">gpu-ref:fp16 against ipu:fp16.16, invented: DIFFERENT in F1, better: &#43;12.29 (95% interval`
	if !strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(after), `<div id="answer" data-live>`)), want) {
		t.Errorf("after its title the page begins with %.200s, want %s", after, want)
	}
	if strings.Contains(html, "<b>wrong</b>") {
		t.Error("an answer is taken for HTML")
	}
}

// TestNothingLearned: arms that learned nothing are not shown in the colour of a good answer, although they are equal.
func TestNothingLearned(t *testing.T) {
	a, b := ipu, gpu
	a.F1, b.F1 = 5.8, 5.9
	html := write(t, seriestest.Write(t, t.TempDir(), 3, a, b))
	if !strings.Contains(html, `<p class="answer doubt">`) || !strings.Contains(html, "INCONCLUSIVE in F1, since neither arm is better") {
		t.Errorf("the page begins with %.2000s", html[strings.Index(html, "</h1>"):])
	}
	picture, _, _ := strings.Cut(section(t, html, "verdict"), "phase1 masked LM loss")
	if strings.Contains(picture, "good") {
		t.Errorf("the verdict is shown as good:\n%s", picture)
	}
}

// TestSelfContained: a page loads nothing from anywhere.
func TestSelfContained(t *testing.T) {
	html := write(t, seriestest.Write(t, t.TempDir(), 1, ipu, gpu))
	if m := regexp.MustCompile(`(?i)(src|href|action)\s*=\s*"?[^"#d][^"]*|@import|url\((?:[^#)]*:)`).FindAllString(html, -1); len(m) > 0 {
		t.Errorf("the page refers to %q", m)
	}
	if !strings.Contains(html, "default-src &#39;none&#39;") {
		t.Error("the page has no policy against loading")
	}
}

// TestSameRunsSamePage: a page depends neither on the order of a map nor on the clock.
func TestSameRunsSamePage(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 2, ipu, gpu)
	if first, second := write(t, records), write(t, records); first != second {
		t.Error("two pages of the same runs differ")
	}
}

// data reads the numbers of a page back.
func data(t *testing.T, html string) (d struct {
	Arms, Phases []string
	Quantities   []struct {
		Name      string
		Evaluated bool
	}
	Runs []struct {
		Name         string
		Arm          int
		Steps, Tests struct {
			Phase    []int
			Steps    []float64
			Modelled []float64 `json:"modelled-seconds"`
			Skipped  []int
			Values   map[string][]*float64
		}
	}
	Every int
}) {
	t.Helper()
	_, after, _ := strings.Cut(html, `id="data">`)
	text, _, _ := strings.Cut(after, "</script>")
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v\n%.300s", err, text)
	}
	return d
}

func TestNumbers(t *testing.T) {
	lost := gpu
	lost.NaN = 60
	modelled := ipu
	modelled.ModelledSeconds, modelled.Inside = 0.001, true
	d := data(t, write(t, seriestest.Write(t, t.TempDir(), 2, modelled, lost)))
	if strings.Join(d.Arms, " ") != "ipu/adamw gpu-ref:fp16/adamw" || strings.Join(d.Phases, " ") != "phase1 squad" ||
		len(d.Runs) != 4 || d.Every != 1 {
		t.Fatalf("arms %v, phases %v, %d runs, every %d", d.Arms, d.Phases, len(d.Runs), d.Every)
	}
	r := d.Runs[3]
	if r.Arm != 1 || len(r.Steps.Steps) != 70 || r.Steps.Phase[29] != 0 || r.Steps.Phase[30] != 1 ||
		r.Steps.Values["loss"][59] != nil || r.Steps.Values["loss"][58] == nil {
		t.Errorf("run %s: arm %d, %d steps", r.Name, r.Arm, len(r.Steps.Steps))
	}
	if s := d.Runs[0].Steps.Skipped; len(s) != 1 || s[0] != 34 {
		t.Errorf("skipped steps at %v, want 34", s)
	}
	if m := d.Runs[0].Steps.Modelled; len(m) != 70 || m[69] != 0.07 || d.Runs[1].Arm == 0 && len(d.Runs[1].Tests.Modelled) != 5 ||
		len(d.Runs[3].Steps.Modelled) != 0 {
		t.Errorf("modelled seconds %v", m)
	}
	for _, q := range d.Quantities {
		if q.Evaluated && q.Name != "f1" && q.Name != "exact_match" {
			t.Errorf("%s was evaluated once, and a curve is drawn of it", q.Name)
		}
	}
}

// TestOneRun: a single run has no verdict, and one that broke off has no result.
func TestOneRun(t *testing.T) {
	dir := t.TempDir()
	records := seriestest.Write(t, dir, 1, ipu)
	if text := section(t, write(t, records), "verdict"); !strings.Contains(text, "One arm alone") {
		t.Errorf("verdict: %s", text)
	}
	if err := os.Remove(filepath.Join(records[0].Dir, "result.json")); err != nil {
		t.Fatal(err)
	}
	run, err := results.Open(records[0].Dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := series.Read(run)
	if err != nil {
		t.Fatal(err)
	}
	html := write(t, []*series.Record{r})
	if text := section(t, html, "standing"); !strings.Contains(text, "ipu/adamw, seed 1: squad, step 40 of 40") ||
		!strings.Contains(text, `value="100.0"`) || !strings.Contains(text, "0 of 1 run complete, 1 broke off.") {
		t.Errorf("standing: %s", text)
	}
	if text := section(t, html, "runs"); !strings.Contains(text, `<td class="bad">broken off</td>`) {
		t.Errorf("runs: %s", text)
	}
}

// TestStanding: runs that go on, were stopped, failed and broke off look different and say why, and there is no verdict
// while no pair is complete.
func TestStanding(t *testing.T) {
	dir := t.TempDir()
	records := seriestest.Write(t, dir, 5, ipu, gpu)
	for i, end := range []string{`{"status": "stopped", "reason": "signal: interrupt"}`, `{"status": "failed", "reason": "no space <left>"}`,
		"", "hold", ""} {
		d := records[2*i+1].Dir
		if err := os.Remove(filepath.Join(d, "result.json")); err != nil {
			t.Fatal(err)
		}
		switch end {
		case "":
		case "hold":
			unlock, err := durable.Lock(filepath.Join(d, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unlock() }()
		default:
			if err := os.WriteFile(filepath.Join(d, "stop.json"), []byte(end), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range records {
		run, err := results.Open(records[i].Dir)
		if err != nil {
			t.Fatal(err)
		}
		if records[i], err = series.Read(run); err != nil {
			t.Fatal(err)
		}
	}
	html := write(t, records)
	text := section(t, html, "standing")
	for _, want := range []string{"5 of 10 runs complete, 1 is running, 1 failed, 2 broke off, 1 was stopped.",
		`<span class="badge go">running</span> gpu-ref:fp16/adamw, seed 4`, `<span class="badge bad">failed</span> gpu-ref:fp16/adamw, seed 2`,
		"no space &lt;left&gt;", `<span class="badge bad">broken off</span>`, "it was killed, or its machine went down",
		`<span class="badge doubt">stopped</span>`, "signal: interrupt"} {
		if !strings.Contains(text, want) {
			t.Errorf("standing has no %q:\n%s", want, text)
		}
	}
	if text := section(t, html, "verdict"); !strings.Contains(text, "NO VERDICT YET") || strings.Contains(text, "INCONCLUSIVE") {
		t.Errorf("verdict: %s", text)
	}
	if !strings.Contains(html, "no verdict yet, since no seed is complete in both arms") {
		t.Errorf("the page begins with %.1000s", html[strings.Index(html, "</h1>"):])
	}
	if seen, _, _ := strings.Cut(html, `<script type="application/json"`); regexp.MustCompile(`NaN|Inf\b|>null|undefined`).MatchString(seen) {
		t.Error("the page shows numbers that are none")
	}
}

// TestManyArms: ten arms are counted at the head of the page and lie in one picture, three beside the first in a table.
func TestManyArms(t *testing.T) {
	arms := []seriestest.Arm{ipu}
	for i := range 9 {
		a := gpu
		a.Backend, a.F1 = fmt.Sprintf("gpu-ref:fp16?loss_scale=%d", 1<<i), 70+float64(2*i)
		arms = append(arms, a)
	}
	html := write(t, seriestest.Write(t, t.TempDir(), 2, arms...))
	if !strings.Contains(html, "<h1>invented: 9 arms against ipu/adamw</h1>") || !strings.Contains(html, "9 arms against ipu:fp16.16") {
		t.Errorf("the page begins with %.1000s", html[strings.Index(html, "<h1>"):])
	}
	text := section(t, html, "verdict")
	if n := strings.Count(text, `<figure class="picture">`); n != 2 {
		t.Errorf("%d pictures, want one for each metric with a margin, 2", n)
	}
	if n := strings.Count(text, `class="line"`); n != 2*9 {
		t.Errorf("%d lines in the pictures, want 9 in each of 2", n)
	}
	if n := strings.Count(section(t, html, "time"), "<thead>"); n < 3 {
		t.Errorf("%d tables of times, want 3 at least", n)
	}
	if !strings.Contains(section(t, html, "differences"), `<th scope="row">gpu-ref:fp16?loss_scale=4/adamw</th><td>gpu-ref</td>`) ||
		!strings.Contains(section(t, html, "differences"), `<th scope="col">loss_scale</th>`) {
		t.Errorf("differences: %s", section(t, html, "differences"))
	}
}

// TestContrast: texts and lines stand out from what they lie on as WCAG 2.2 wants it at level AA: 4.5 for texts (1.4.3)
// and 3 for lines (1.4.11), on white and in the dark.
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("page.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s):root[^{]*\{(.*?)\}`).FindAllStringSubmatch(string(css), 2)
	if len(blocks) != 2 {
		t.Fatalf("page.css has %d sets of colours, want 2", len(blocks))
	}
	for i, b := range blocks {
		luminance := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+): #([0-9a-f]+)`).FindAllStringSubmatch(b[1], -1) {
			hex := m[2]
			if len(hex) == 3 {
				hex = strings.Repeat(hex[:1], 2) + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:], 2)
			}
			v, err := strconv.ParseUint(hex, 16, 32)
			if err != nil || len(hex) != 6 {
				continue // a shade
			}
			part := func(shift int) float64 {
				c := float64(v>>shift&255) / 255
				if c <= 0.04045 {
					return c / 12.92
				}
				return math.Pow((c+0.055)/1.055, 2.4)
			}
			luminance[m[1]] = 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
		}
		check := func(least float64, on string, names ...string) {
			for _, name := range names {
				a, b := luminance[name], luminance[on]
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < least {
					t.Errorf("set %d: %s on %s has a contrast of %.2f, want %g", i+1, name, on, ratio, least)
				}
			}
		}
		for _, on := range []string{"ground", "raised"} {
			check(4.5, on, "ink", "faint", "link", "good", "bad", "doubt", "go")
			check(3, on, "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7")
		}
		for _, name := range []string{"good", "bad", "doubt", "go"} {
			check(4.5, name+"ground", name)
		}
		check(4.5, "gold", "ink")
	}
}

func TestIncomparable(t *testing.T) {
	a, b := seriestest.Write(t, t.TempDir(), 1, ipu), seriestest.Write(t, t.TempDir(), 1, ipu)
	if err := page.Write(io.Discard, append(a, b...), page.Options{}); !errors.Is(err, verdict.ErrIncomparable) {
		t.Errorf("error is %v, want ErrIncomparable", err)
	}
}

// TestModelledAxis: where the model was never checked, curves have modelled time only on request.
func TestModelledAxis(t *testing.T) {
	a := ipu
	a.ModelledSeconds = 0.001
	records := seriestest.Write(t, t.TempDir(), 1, a, gpu)
	for _, asked := range []bool{false, true} {
		var out bytes.Buffer
		if err := page.Write(&out, records, page.Options{Modelled: asked}); err != nil {
			t.Fatal(err)
		}
		d := data(t, out.String())
		quantity := false
		for _, q := range d.Quantities {
			quantity = quantity || q.Name == series.ModelledStepSeconds
		}
		_, values := d.Runs[0].Steps.Values[series.ModelledStepSeconds]
		if points := d.Runs[0].Steps.Modelled; len(points) > 0 != asked || quantity != asked || values != asked {
			t.Errorf("asked %v: %d points of modelled time, its quantity %v, values %v", asked, len(points), quantity, values)
		}
	}
}
