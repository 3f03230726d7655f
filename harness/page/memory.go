package page

import (
	"maps"
	"slices"

	"harness.invalid/harness/report"
	"harness.invalid/results/verdict"
)

// memory lists the peak memory of each arm's processes over its runs, up to the end of each phase; nil if no run
// recorded it.
func memory(c *verdict.Comparison) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "measured, at most"}}}
	for _, a := range c.Arms {
		s.Columns = append(s.Columns, report.Column{Name: a.Arm.String(), Right: true})
	}
	for _, phase := range c.Phases {
		peaks := make([]map[string]int64, len(c.Arms))
		names := map[string]bool{}
		for i, a := range c.Arms {
			peaks[i] = map[string]int64{}
			for _, r := range c.RunsOf(a.Arm) {
				p, _ := r.Phase(phase.Name)
				for name, n := range p.PeakMemoryBytes {
					peaks[i][name] = max(peaks[i][name], n)
					names[name] = true
				}
			}
		}
		if len(names) == 0 {
			continue
		}
		s.Rows = append(s.Rows, append(report.Texts(phase.Name), make(report.Row, len(c.Arms))...))
		for _, name := range slices.Sorted(maps.Keys(names)) {
			row := report.Texts("  " + name)
			for i := range c.Arms {
				row = append(row, report.Cell{Text: bytesText(peaks[i][name])})
			}
			s.Rows = append(s.Rows, row)
		}
	}
	if len(s.Rows) == 0 {
		return nil
	}
	s.Notes = []string{"Memory that the processes of a run had resident, up to the end of the phase. What they share counts " +
		"in each. It is that of the programs here, not of the hardware that a backend stands for."}
	return s
}
