package export

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// benchmarks writes a line for each phase of each complete run: the steps as iterations, measured time per step,
// measured rate, and the final metrics. Runs that differ in the seed alone are samples of one benchmark, so
// `benchstat -col /backend FILE` compares backends.
//
// Source: golang.org/design/14313-benchmark-format.
func benchmarks(w io.Writer, records []*series.Record) error {
	out := bufio.NewWriter(w)
	var last string
	for _, r := range records {
		if r.Result == nil || r.Result.Status != results.Complete {
			continue
		}
		e := r.Environment
		head := fmt.Sprintf("goos: %s\ngoarch: %s\npkg: harness.invalid/harness\ncpu: %s\nthreads: %d\nfingerprint: %.12s\ndata: %.12s\n",
			e.OS, e.Arch, e.CPU, e.Threads, r.Fingerprint, r.DataDigest)
		if head != last {
			fmt.Fprint(out, head)
			last = head
		}
		for _, p := range r.Result.Phases {
			if p.Steps == 0 {
				continue
			}
			// The format is part of the backend: benchstat lines up benchmarks that differ in the key it compares
			// by, and in nothing else.
			backend, err := recipe.ParseSpec(r.Backend)
			if err != nil {
				return err
			}
			backend.Precision = r.Precision
			name := fmt.Sprintf("BenchmarkTrain/recipe=%s/phase=%s/backend=%s/optimizer=%s", word(r.Identity.Recipe), word(p.Name),
				word(backend.String()), word(r.Optimizer))
			fmt.Fprintf(out, "%s %d %.0f ns/op", name, p.Steps, 1e9*p.MeasuredSeconds[results.TrainingSeconds]/float64(p.Steps))
			if v := p.SequencesPerSecond(); v > 0 {
				fmt.Fprintf(out, " %.6g sequences/s", v)
			}
			for _, metric := range slices.Sorted(maps.Keys(p.Metrics)) {
				if v := p.Metrics[metric]; !math.IsNaN(v) && !math.IsInf(v, 0) {
					fmt.Fprintf(out, " %.6g %s", v, metric)
				}
			}
			if t := p.Target; t != nil && t.Step > 0 {
				fmt.Fprintf(out, " %d steps-to-target %.6g measured-sec-to-target", t.Step, t.MeasuredSeconds)
			}
			fmt.Fprintln(out)
		}
	}
	return out.Flush()
}

// word is part of a benchmark's name, where blanks and slashes have a meaning.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' {
			return '_'
		}
		return r
	}, s)
}
