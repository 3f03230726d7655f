package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
		"verdict": {`DIFFERENT, better</span> gpu-ref:fp16/adamw against ipu/adamw`, "<strong>squad F1, %</strong>", "3 paired seeds",
			"phase1 masked LM loss, nats", "EQUIVALENT"},
		"table":   {"<caption>Recipe invented", `<th scope="row" class="in">F1, %</th>`, "steps to F1 50"},
		"time":    {"ipu/adamw", "optimizer", "evaluation", "setup", "Measured seconds of the programs that ran here"},
		"memory":  {"3.0 GiB", "20.0 MiB", "backend"},
		"answers": {"both exactly right", "&lt;b&gt;wrong&lt;/b&gt;", "<mark>"},
		"runs":    {"complete", "ipu-adamw-seed3", "70"},
		"recipe":  {"name: invented", "all runs", "Made up, for tests"},
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
	card, _, _ := strings.Cut(section(t, html, "verdict"), "phase1 masked LM loss")
	if strings.Contains(card, "good") {
		t.Errorf("the verdict is shown as good:\n%s", card)
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
	if text := section(t, html, "verdict"); !strings.Contains(text, "ipu/adamw, seed 1: squad, step 40 of 40") ||
		!strings.Contains(text, `value="100.0"`) {
		t.Errorf("verdict: %s", text)
	}
	if text := section(t, html, "runs"); !strings.Contains(text, "unfinished") {
		t.Errorf("runs: %s", text)
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
