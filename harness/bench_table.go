package main

import (
	"fmt"
	"io"

	"harness.invalid/harness/bench"
)

// printFigures prints a row for each benchmark.
func printFigures(out io.Writer, figures []bench.Figure) error {
	table := newTable(out, "benchmark", "count", "ms (min median max)", "rate", "limit", "%peak", "alone")
	alone := bench.Alone(figures)
	for i, f := range figures {
		rate, limit, share := rates(&f)
		quiet := ""
		if share != "" && len(alone[i]) > 0 {
			quiet = fmt.Sprintf("%.1f (%d)", 100*bench.Median(alone[i]), len(alone[i]))
		}
		times := fmt.Sprintf("%.4g %.4g %.4g", f.Time.Min, f.Time.Median, f.Time.Max)
		table.add(f.Name, fmt.Sprint(f.Count), times, rate, limit, share, quiet)
	}
	return table.print()
}

// rates are the cells of a figure beside its times.
func rates(f *bench.Figure) (rate, limit, share string) {
	if f.Share > 0 {
		share = fmt.Sprintf("%.1f", 100*f.Share)
	}
	switch {
	case f.SequencesPerSecond > 0:
		rate = fmt.Sprintf("%.4g sequences/s, %.4g GFLOP/s", f.SequencesPerSecond, f.GFLOPS)
		return rate, fmt.Sprintf("%.4g GFLOP/s", f.PeakGFLOPS), share
	case f.GFLOPS > 0:
		return fmt.Sprintf("%.4g GFLOP/s", f.GFLOPS), fmt.Sprintf("%.4g GFLOP/s", f.PeakGFLOPS), share
	case f.GBs > 0:
		return fmt.Sprintf("%.4g GB/s", f.GBs), fmt.Sprintf("%.4g GB/s", f.PeakGBs), share
	case f.MBs > 0:
		return fmt.Sprintf("%.4g MB/s, %.3g allocations a line", f.MBs, f.AllocationsPerLine), "", ""
	}
	return "", "", ""
}
