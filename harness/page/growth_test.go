package page

import (
	"fmt"
	"io"
	"testing"

	"harness.invalid/harness/report"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
	"harness.invalid/results/verdict"
)

// writeTable prints the table of the runs in a folder, as `harness report --format table` does.
func writeTable(dir string) error {
	runs, err := series.OpenRuns([]string{dir}, "")
	if err != nil {
		return err
	}
	c, err := verdict.Compare(runs)
	if err != nil {
		return err
	}
	return report.Write(io.Discard, c, report.Options{})
}

// writePage writes their page.
func writePage(dir string) error {
	records, err := series.OpenMeans([]string{dir}, "", MostPoints)
	if err != nil {
		return err
	}
	return Write(io.Discard, records, Options{})
}

// BenchmarkReport reports on pairs of runs that are as long as those of scratch, with the scores of 1,600 questions, judged by
// a fixed plan. docs/reports.md has the growth for those of quick.
func BenchmarkReport(b *testing.B) {
	for _, pairs := range []int{10, 100, 1000} {
		dir := b.TempDir()
		seriestest.WriteLong(b, dir, pairs, 10)
		for name, write := range map[string]func(string) error{"table": writeTable, "page": writePage} {
			b.Run(fmt.Sprintf("%s/%d", name, pairs), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := write(dir); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestGrowth: the third four pairs take as many allocations as the second four, within 2%. The runs are short, so that
// reading their steps, which is linear, hides little of what is not.
func TestGrowth(t *testing.T) {
	allocated := map[string][]float64{}
	for _, pairs := range []int{4, 8, 12} {
		dir := t.TempDir()
		seriestest.WriteLong(t, dir, pairs, 1)
		for name, write := range map[string]func(string) error{"table": writeTable, "page": writePage} {
			allocated[name] = append(allocated[name], testing.AllocsPerRun(1, func() {
				if err := write(dir); err != nil {
					t.Fatal(err)
				}
			}))
		}
	}
	for name, a := range allocated {
		if second, third := a[1]-a[0], a[2]-a[1]; third > 1.02*second {
			t.Errorf("%s: 8 pairs take %g allocations more than 4, and 12 pairs %g more than 8", name, second, third)
		}
	}
}
