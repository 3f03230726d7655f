package page

import (
	"fmt"
	"io"
	"math"
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
	return Write(io.Discard, records)
}

// BenchmarkReport reports on pairs of runs that are as long as those of quick.
func BenchmarkReport(b *testing.B) {
	for _, pairs := range []int{10, 100, 1000} {
		dir := b.TempDir()
		seriestest.WriteLong(b, dir, pairs)
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

// TestGrowth: twice as many pairs take at most twice as many allocations, and a little.
func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 120 runs")
	}
	for name, write := range map[string]func(string) error{"table": writeTable, "page": writePage} {
		before := math.Inf(1)
		for _, pairs := range []int{20, 40} {
			dir := t.TempDir()
			seriestest.WriteLong(t, dir, pairs)
			allocated := testing.AllocsPerRun(1, func() {
				if err := write(dir); err != nil {
					t.Fatal(err)
				}
			})
			if allocated > 2.1*before {
				t.Errorf("%s: %g allocations for %d pairs, %g for half as many", name, allocated, pairs, before)
			}
			before = allocated
		}
	}
}
