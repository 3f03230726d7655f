package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
	"harness.invalid/results/verdict"
)

var update = flag.Bool("update", false, "write what is printed to testdata")

// arm is how an arm's runs turn out.
type arm struct {
	backend, precision, optimizer string
	f1, loss                      float64 // at the end, before noise
	speed                         float64 // sequences/s
	skipped                       int
	notes                         []string
}

// compare invents runs and compares them.
func compare(t *testing.T, seeds int, noise float64, arms ...arm) *verdict.Comparison {
	t.Helper()
	r, err := recipe.Load("testdata/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var runs []*results.Run
	for _, a := range arms {
		for seed := range seeds {
			// What the seed does to all arms, and what it does to this one.
			common, own := rand.New(rand.NewPCG(uint64(seed), 0)), rand.New(rand.NewPCG(uint64(seed), uint64(len(runs))))
			off := func(scale float64) float64 { return scale * (common.NormFloat64() + noise*own.NormFloat64()) }
			res := &results.Result{Status: results.Complete, BatchDigest: "b", Notes: a.notes}
			for i, p := range r.Phases {
				n := int64(p.TotalSteps(0)) * int64(p.GlobalBatch)
				training := float64(n) / a.speed
				out := results.PhaseResult{Name: p.Name, Steps: p.TotalSteps(0), Sequences: n,
					Floors:          results.Metrics{"f1": 4, "exact_match": 1, "masked_lm_loss": 5.1},
					MeasuredSeconds: map[string]float64{"training": training, "total": training + 1.5}}
				if p.Name == "squad" {
					f1 := a.f1 + off(1)
					out.Metrics = results.Metrics{"exact_match": f1 - 4, "f1": f1}
					out.Target = &results.Reached{Metric: "f1", Value: 80}
					if f1 > 80 {
						out.Target.Step, out.Target.MeasuredSeconds = 300, training*0.6
					}
				} else {
					out.Skipped = a.skipped
					mlm := a.loss - 0.3*float64(i) + off(0.02)
					out.Metrics = results.Metrics{"loss": mlm + 0.41, "masked_lm_loss": mlm, "masked_lm_accuracy": 70 - 10*mlm,
						"next_sentence_loss": 0.41, "next_sentence_accuracy": 81.25}
				}
				res.AddPhase(out)
			}
			runs = append(runs, &results.Run{
				Identity: results.Identity{Recipe: r.Name, Fingerprint: "0123456789abcdef", DataDigest: "fedcba9876543210", Backend: a.backend,
					Precision: a.precision, Optimizer: a.optimizer, Seed: uint64(seed + 1)},
				Recipe: r, Result: res,
			})
		}
	}
	c, err := verdict.Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// recorded adds what only runs in folders have: the way there, scores of single questions, an A/A comparison.
func recorded(p *verdict.Pairing) {
	inference := func(low, mean, high float64) *statistics.Inference {
		i := statistics.Interval{Low: results.Number(low), High: results.Number(high), Level: 0.95}
		return &statistics.Inference{Interval: i, EquivalenceInterval: i, PPermutation: 0.0625, BootstrapInterval: &i}
	}
	paired := func(low, mean, high float64) statistics.Paired {
		return statistics.Paired{Arm: statistics.Sample{N: 5}, Difference: results.Number(mean), Inference: inference(low, mean, high)}
	}
	p.Curves = []verdict.CurveDifference{{Phase: "squad", Metric: results.TrainingLoss, AreaBySteps: paired(-0.01, 0.02, 0.05),
		AreaBySeconds: paired(0.1, 0.2, 0.3)},
		{Phase: "squad", Metric: "f1", AreaBySteps: paired(-2, -1, 0.5)},
		{Phase: "phase1", Metric: "masked_lm_accuracy", AreaBySteps: paired(-2, -1, 0.5)}}
	p.Targets = []verdict.TargetDifference{{Phase: "squad", Metric: "f1", Value: 80, Reached: 5, Steps: paired(-12, 20, 52),
		Seconds: paired(4, 6.5, 9)}}
	for i := range p.Metrics {
		if d := &p.Metrics[i]; d.Metric == "f1" {
			d.MultiBootstrap = &statistics.MultiBootstrap{Seeds: 5, Examples: 400,
				Interval: statistics.Interval{Low: -1.1, High: 0.2, Level: 0.95}, P: 0.13}
			d.Noise = &verdict.Noise{Difference: 0.31, Floor: 0.82}
		}
	}
}

var (
	gpu  = arm{backend: "gpu-ref", precision: "fp32", optimizer: "adamw", f1: 88, loss: 1.8, speed: 610}
	ipu  = arm{backend: "ipu", precision: "fp16.16", optimizer: "adamw", f1: 87.6, loss: 1.82, speed: 430, skipped: 2}
	fp16 = arm{backend: "gpu-ref:fp16", precision: "fp16", optimizer: "adamw", f1: 88, loss: 1.8, speed: 520, skipped: 3}
	lamb = arm{backend: "ipu", precision: "fp16.16", optimizer: "lamb", f1: 78, loss: 2.4, speed: 400}
	lost = arm{backend: "ipu:fp16.16", precision: "fp16.16", optimizer: "adamw", f1: 7, loss: math.NaN(), speed: 430, skipped: 41,
		notes: []string{"phase phase1: 300 of 500 steps were skipped because a gradient was not finite; a smaller loss scale may help"}}
)

// TestGolden: `go test ./harness/report -update` writes the files; read the diff.
func TestGolden(t *testing.T) {
	one := compare(t, 1, 0.1, gpu, ipu)
	many := compare(t, 5, 0.3, gpu, ipu, lamb)
	recorded(&many.Comparisons[0])
	for _, c := range []struct {
		file string
		c    *verdict.Comparison
		o    report.Options
	}{
		{"one-seed.txt", one, report.Options{}},
		{"one-arm.txt", compare(t, 1, 0, gpu), report.Options{Format: report.Table}},
		{"five-seeds.txt", many, report.Options{Width: 100}},
		{"five-seeds.md", many, report.Options{Format: report.Markdown}},
		{"five-seeds.csv", many, report.Options{Format: report.CSV}},
		{"five-seeds.html", many, report.Options{Format: report.HTML}},
		{"five-seeds.tex", many, report.Options{Format: report.LaTeX}},
		{"narrow.txt", many, report.Options{Width: 60}},
		{"color.txt", many, report.Options{Color: true}},
		{"diverged.txt", compare(t, 3, 0.3, gpu, lost), report.Options{Width: 120}},
		{"formats.txt", compare(t, 1, 0.3, gpu, fp16, ipu, lamb), report.Options{Width: 160}},
	} {
		var out bytes.Buffer
		if err := report.Write(&out, c.c, c.o); err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		path := filepath.Join("testdata", c.file)
		if *update {
			if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.file, diff)
		}
	}
}

// TestWidth: two arms fit into 100 columns, even with a spread and the longest names of built-in backends, and no
// line is wider than allowed.
func TestWidth(t *testing.T) {
	for _, width := range []int{60, 80, 100, 120, 200} {
		for _, c := range []*verdict.Comparison{compare(t, 1, 0.3, fp16, lost), compare(t, 5, 0.3, fp16, lost),
			compare(t, 3, 0.3, gpu, fp16, ipu, lamb)} {
			var out bytes.Buffer
			if err := report.Write(&out, c, report.Options{Width: width}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("a line has %d columns, want at most %d:\n%s", n, width, line)
				}
			}
		}
	}
}

// TestSentenceFirst: what people read begins with the sentence of each comparison, and CSV has it in the line of the primary
// metric alone.
func TestSentenceFirst(t *testing.T) {
	c := compare(t, 5, 0.3, gpu, ipu, lamb)
	want := []string{c.Comparisons[0].Sentence, c.Comparisons[1].Sentence}
	for _, f := range []report.Format{report.Table, report.Markdown, report.HTML, report.LaTeX} {
		var out bytes.Buffer
		if err := report.Write(&out, c, report.Options{Format: f}); err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer(`\%`, "%", "&#39;", "'", "&#43;", "+", "$", "").Replace(strings.Join(strings.Fields(out.String()), " "))
		table := strings.Index(text, "fingerprint")
		for _, s := range want {
			if at := strings.Index(text, s); at < 0 || at > table {
				t.Errorf("%s: the sentence is at %d and the table at %d: %s", f, at, table, s)
			}
		}
	}
	var out bytes.Buffer
	if err := report.Write(&out, c, report.Options{Format: report.CSV}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range lines[1:] {
		if s := line[len(line)-1]; s != "" {
			got = append(got, s)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sentences in CSV (-want +got):\n%s", diff)
	}
}

// TestMachineFormats: all lines of CSV have the same length, and JSON is the comparison.
func TestMachineFormats(t *testing.T) {
	c := compare(t, 3, 0.3, gpu, lost)
	var text bytes.Buffer
	if err := report.Write(&text, c, report.Options{Format: report.CSV}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&text).ReadAll() // refuses lines of another length
	if err != nil || len(lines) < 20 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	text.Reset()
	if err := report.Write(&text, c, report.Options{Format: report.JSON}); err != nil {
		t.Fatal(err)
	}
	var again verdict.Comparison
	if err := json.Unmarshal(text.Bytes(), &again); err != nil || again.Recipe != "quick" || len(again.Runs) != 6 ||
		!math.IsNaN(again.Runs[3].Metrics["masked_lm_loss"]) {
		t.Errorf("read back: %+v, %v", again, err)
	}
}

func TestParseFormat(t *testing.T) {
	for _, name := range strings.Split(strings.ReplaceAll(report.Formats, " or ", ", "), ", ") {
		if f, err := report.ParseFormat(name); err != nil || string(f) != name {
			t.Errorf("%s: %q, %v", name, f, err)
		}
	}
	if _, err := report.ParseFormat("markdwon"); err == nil || !strings.Contains(err.Error(), "did you mean markdown?") {
		t.Errorf("error is %v, want one with the nearest format", err)
	}
	if err := report.Write(&bytes.Buffer{}, compare(t, 1, 0, gpu), report.Options{Format: "pdf"}); err == nil {
		t.Error("a format that is not known is printed")
	}
	if err := report.Write(&bytes.Buffer{}, &verdict.Comparison{}, report.Options{}); err == nil {
		t.Error("a comparison without runs is printed")
	}
}
