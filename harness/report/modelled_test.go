package report_test

import (
	"strings"
	"testing"

	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// TestModelled: modelled figures come with interval, system and format, and without a ratio. Outside of what a model
// was checked on they are left out, with the reason, unless they are asked for.
func TestModelled(t *testing.T) {
	c := compare(t, 1, 0, ipu, gpu)
	for i := range c.Runs {
		for j := range c.Runs[i].Phases {
			p := &c.Runs[i].Phases[j]
			p.System, p.ModelledSeconds = "pod", 40
			v := float64(p.Sequences) / p.ModelledSeconds
			p.ModelledConfidence = &results.Confidence{Low: v / 1.07, High: v * 1.07, Level: 0.8, Inside: true, Why: "rows"}
		}
	}
	write := func(o report.Options) string {
		var out strings.Builder
		if err := report.Write(&out, c, o); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const remark = "Modelled times are left out"
	inside := write(report.Options{Format: report.Markdown})
	if n := strings.Count(inside, "40.0 ±7% (pod, "); n != 2*len(c.Phases) || strings.Contains(inside, remark) {
		t.Errorf("%d modelled times, want one for each phase and arm\n%s", n, inside)
	}
	for line := range strings.Lines(inside) {
		if strings.Contains(line, "modelled") && strings.Contains(line, "x 1.00") {
			t.Errorf("a modelled figure has a ratio: %s", line)
		}
	}
	for j := range c.Runs[0].Phases {
		c.Runs[0].Phases[j].ModelledConfidence = &results.Confidence{Why: "2 layers, published: 12 to 24"}
	}
	for _, f := range []report.Format{report.Table, report.Markdown, report.CSV, report.HTML, report.LaTeX} {
		text := write(report.Options{Format: f})
		if strings.Contains(text, "modelled sequences") || strings.Contains(text, "modelled_s") {
			t.Errorf("%s shows modelled figures outside of what was checked", f)
		}
		said := strings.Contains(text, remark) && strings.Contains(text, "2 layers, published: 12 to 24")
		if f != report.CSV && f != report.Table && !said {
			t.Errorf("%s does not say why modelled times are left out", f)
		}
	}
	c.FullSize = []verdict.FullSize{
		{Backend: "ipu", Precision: "fp16.16", System: "bow-pod16", Training: "BERT-Large", Hours: 32.4, Low: 30, High: 34.6, Inside: true},
		{Backend: "gpu-ref", Precision: "fp16", System: "dgx", Training: "BERT-Large", Hours: 35.6, Low: 30, High: 40},
	}
	if line := "| BERT-Large, hours | 32.4 ±7% (bow-pod16, fp16.16) | 35.6 (outside) (dgx, fp16) |"; !strings.Contains(squeezed(write(
		report.Options{Format: report.Markdown})), line) {
		t.Errorf("no line %q in\n%s", line, squeezed(write(report.Options{Format: report.Markdown})))
	}
	if text := write(report.Options{Format: report.Markdown, Modelled: true}); !strings.Contains(text, "40.0 (outside) (pod, ") {
		t.Errorf("not shown on request:\n%s", text)
	}
}

// squeezed is text with single blanks.
func squeezed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}
