package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestClaims holds the table of published times to train in docs/machines.md against the commands above it.
func TestClaims(t *testing.T) {
	t.Setenv(programVariable, t.Name())
	text := document(t, "docs/machines.md")
	_, rest, _ := strings.Cut(text, "## Against published times to train")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	block, _, _ := strings.Cut(rest, "\n```")
	lines := strings.Split(block, "\n")
	if len(lines) != 6 {
		t.Fatalf("docs/machines.md has %d commands for the published claims, want 6", len(lines))
	}
	type estimate struct {
		System             string
		TotalSeconds       float64 `json:"total_seconds"`
		SequencesPerSecond float64 `json:"sequences_per_second"`
	}
	var got [6]estimate
	for i := range got {
		command, _, _ := strings.Cut(lines[i], " #")
		args := append(strings.Fields(command)[1:], "--format", "json")
		if err := json.Unmarshal(ask(t, "", args...), &got[i]); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	hours := func(e ...estimate) (sum float64) {
		for _, one := range e {
			sum += one.TotalSeconds / 3600
		}
		return sum
	}
	const (
		published = 34.49 // minutes
		sequences = published * 60 * 1312
	)
	pod, dgx := hours(got[0], got[1]), hours(got[2])
	minutes, bow := sequences/got[3].SequencesPerSecond/60, got[4].SequencesPerSecond/got[5].SequencesPerSecond
	deviation := func(modelled, published float64) string { return fmt.Sprintf("%+.0f%%", 100*(modelled/published-1)) }
	for _, want := range []string{
		fmt.Sprintf("# %.2f h, and\n", hours(got[0])), fmt.Sprintf("# %.2f h, against\n", hours(got[1])), fmt.Sprintf("# %.2f h\n", dgx),
		fmt.Sprintf("| up to 2.6x | %.2fx: %.1f h against %.1f h | %s |", dgx/pod, pod, dgx, deviation(dgx/pod, 2.6)),
		fmt.Sprintf("| 34.49 min | %.1f min: %.0f seq/s | %s |", minutes, got[3].SequencesPerSecond, deviation(minutes, published)),
		fmt.Sprintf("| up to 1.4x | %.2fx | %s |", bow, deviation(bow, 1.4)),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/machines.md does not have %q", want)
		}
	}
}

// TestNamedTests: the tests that docs/execution.md names are there.
func TestNamedTests(t *testing.T) {
	names := regexp.MustCompile("`([a-z/-]+)\\.(Test[A-Za-z]+)`").FindAllStringSubmatch(document(t, "docs/execution.md"), -1)
	if len(names) < 20 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, n := range names {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(n[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+n[2]+"(")
		}
		if !found {
			t.Errorf("docs/execution.md names %s.%s, which is not there", n[1], n[2])
		}
	}
}
