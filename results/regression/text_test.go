package regression

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness.invalid/results"
)

func number(v float64) *results.Number { n := results.Number(v); return &n }

var texts = &Check{Baseline: "b", Recipe: "r", Standing: Regressed, Facts: []Fact{
	{Name: "arm seed 1 losses", Standing: Regressed, Exact: true, Baseline: strings.Repeat("a", 32), Now: "2", Reason: "100% other, a|b"},
	{Name: "arm step_seconds", Standing: Undecided, Relative: true, Change: number(0.05), Tolerance: number(0.1), Power: number(0.5),
		Reason: "few"},
	{Name: "arm f1", Standing: Waived, Change: number(-1.5), Noise: number(2), Baseline: "80", Now: "78.5", Reason: "known"},
	{Name: "arm data", Standing: Holds},
}}

func TestTexts(t *testing.T) {
	for i, want := range []string{
		"100% other, a|b (was " + strings.Repeat("a", 32) + ", is 2)", "few (was -, is -, change +5%, tolerance 10%, power 0.50)",
		"known (was 80, is 78.5, change -1.5, noise 2)",
	} {
		if got := texts.Facts[i].Explained(); got != want {
			t.Errorf("fact %d is explained as %q, want %q", i, got, want)
		}
	}
	if f := texts.Facts[0]; f.ShortText(f.Baseline) != strings.Repeat("a", 12) || f.ShortText("1") != "1" {
		t.Error("digests are not cut, or other values are")
	}
}

// TestWriteJUnit holds what the schemas of CI systems ask for. The XML of a check with facts of every standing was
// validated by xmllint against junit-10.xsd of jenkinsci/xunit-plugin (8c515de) and against JUnit.xsd of
// windyroad/JUnit-Schema (cfa434d); the second wants the elements and attributes below, and a timestamp without a zone.
func TestWriteJUnit(t *testing.T) {
	var out bytes.Buffer
	began := time.Date(2026, 11, 22, 9, 30, 5, 7e8, time.FixedZone("", 3600))
	if err := texts.WriteJUnit(&out, Job{Host: "h", Began: began, Took: 61234 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	var all junitSuites
	if err := xml.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Suites) != 1 {
		t.Fatalf("%d suites, want 1", len(all.Suites))
	}
	s := all.Suites[0]
	if s.Tests != 4 || s.Failures != 1 || s.Errors != 0 || s.Skipped != 2 || s.Cases[0].Failure == nil || s.Cases[3].Failure != nil {
		t.Errorf("the suite is %+v", s)
	}
	if s.Time != "61.234" || s.Timestamp != "2026-11-22T08:30:05" || s.Host != "h" {
		t.Errorf("the suite was at %s on %s and took %s", s.Timestamp, s.Host, s.Time)
	}
	order := []string{`package="harness" id="0"`, "<properties></properties>", "<testcase ", `<failure message="100% other`,
		`type="regression"`, "<system-out></system-out>", "<system-err></system-err>", "</testsuite>"}
	rest := out.String()
	for _, want := range order {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("there is no %s, or not in its place:\n%s", want, &out)
		}
		rest = after
	}
	for i, c := range s.Cases {
		if c.Time == "" || c.Class != "r" || (c.Skipped != nil) != (i == 1 || i == 2) {
			t.Errorf("case %d is %+v", i, c)
		}
	}
	if got := s.Cases[1].Skipped; got != nil && !strings.HasPrefix(got.Message, "undecided: few") {
		t.Errorf("a fact that is undecided is skipped for %q", got.Message)
	}
}

func TestGitHub(t *testing.T) {
	var out bytes.Buffer
	if err := texts.WriteAnnotations(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	first := "::error title=arm seed 1 losses::REGRESSED: 100%25 other, a|b"
	if len(lines) != 3 || !strings.HasPrefix(lines[0], first) || !strings.HasPrefix(lines[2], "::notice ") {
		t.Errorf("the annotations are\n%s", &out)
	}
	out.Reset()
	row := "\n| arm seed 1 losses | REGRESSED | 100% other, a\\|b |\n"
	if err := texts.WriteSummary(&out); err != nil || !strings.Contains(out.String(), row) {
		t.Errorf("the summary is\n%s%v", &out, err)
	}
}

// TestInherit: waivers and tolerances stay, but not those of metrics that the recipe no longer has.
func TestInherit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.json")
	b := Baseline{Tolerances: Tolerances{Metrics: map[string]float64{"squad.f1": 1, "phase1.loss": 2}, Losses: 0.1}}
	if err := b.Inherit(path); err != nil || b.Tolerances.Losses != 0.1 {
		t.Errorf("without a file: %v, %+v", err, b.Tolerances)
	}
	before := Baseline{
		Recipe: "r", Fingerprint: "f", Alpha: 0.05, Arms: []BaselineArm{{Runs: []BaselineRun{{Seed: 3}, {Seed: 4}, {Seed: 9}}}},
		Tolerances: Tolerances{Metrics: map[string]float64{"squad.f1": 7, "gone.f1": 3}, Losses: 0.5},
		Waivers:    []Waiver{{Fact: "*", Until: "2099-01-01", Reason: "known"}},
	}
	if err := before.Save(path); err != nil {
		t.Fatal(err)
	}
	if err := b.Inherit(path); err != nil {
		t.Fatal(err)
	}
	m := b.Tolerances.Metrics
	if len(b.Waivers) != 1 || b.Tolerances.Losses != 0.5 || m["squad.f1"] != 7 || m["phase1.loss"] != 2 || len(m) != 2 {
		t.Errorf("inherited %+v, %+v", b.Waivers, b.Tolerances)
	}
	if err := os.WriteFile(path, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := b.Inherit(path); err == nil {
		t.Error("a broken file is no error")
	}
	for n, want := range map[int]string{0: "the baseline has 3", 2: "", 3: "not consecutive", 4: "the baseline has 3"} {
		first, err := before.FirstSeed(n)
		if want == "" && (err != nil || first != 3) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d seeds: %d, %v", n, first, err)
		}
	}
}
