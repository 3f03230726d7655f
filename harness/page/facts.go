package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/harness/report"
	"harness.invalid/harness/series"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// facts sums up in a line what the page is about.
func facts(c *verdict.Comparison, records []*series.Record) []string {
	var seeds []uint64
	for _, r := range c.Runs {
		seeds = append(seeds, r.Seed)
	}
	slices.Sort(seeds)
	seeds = slices.Compact(seeds)
	first, last := records[0].Began(), records[0].Began()
	for _, r := range records {
		if t := r.Began(); t.Before(first) {
			first = t
		} else if t.After(last) {
			last = t
		}
	}
	when := first.Format("2 January 2006, 15:04 MST")
	if end := last.Format("2 January 2006"); end != first.Format("2 January 2006") {
		when += " to " + end
	}
	return []string{
		fmt.Sprintf("fingerprint %.12s", c.Fingerprint), fmt.Sprintf("data %.12s", c.DataDigest),
		counted(len(c.Runs), "run") + ", " + counted(len(seeds), "seed"), when,
	}
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// runsSheet lists the runs.
func runsSheet(c *verdict.Comparison, records []*series.Record) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{
		{Name: "arm"}, {Name: "format"}, {Name: "seed", Right: true}, {Name: "state"}, {Name: "steps", Right: true},
		{Name: "skipped", Right: true},
		{Name: "measured seconds", Right: true},
	}}
	phase, metric := splitMetric(c.Primary)
	if metric != "" {
		s.Columns = append(s.Columns, report.Column{Name: strings.TrimSpace(phase + " " + report.Label(metric)), Right: true})
	}
	s.Columns = append(s.Columns, report.Column{Name: "batches"}, report.Column{Name: "folder"})
	for i, r := range c.Runs {
		steps, skipped, seconds := r.Steps, r.Skipped, r.MeasuredSeconds[results.TotalSeconds]
		if r.Status == results.Unfinished {
			steps, skipped, seconds = records[i].Trained, records[i].Skipped, 0
			if n := len(records[i].Steps); n > 0 {
				seconds = records[i].Steps[n-1].Wall
			}
		}
		status, _ := records[i].State()
		state := report.Cell{Text: string(status), Mark: stateMark(status)}
		row := append(report.Texts(r.Arm.String(), r.Precision, strconv.FormatUint(r.Seed, 10)), state)
		row = append(row, report.Texts(strconv.Itoa(steps), strconv.Itoa(skipped), strconv.FormatFloat(seconds, 'f', 1, 64))...)
		if metric != "" {
			text := ""
			if v, ok := r.Metrics[c.Primary]; ok {
				text = strconv.FormatFloat(v, 'f', 2, 64)
			}
			row = append(row, report.Cell{Text: text})
		}
		s.Rows = append(s.Rows, append(row, report.Texts(fmt.Sprintf("%.12s", r.BatchDigest), r.Dir)...))
	}
	return s
}

// stateMark is the mark of a state, hence its colour in a table.
func stateMark(s results.Status) report.Mark {
	switch stateClass(s) {
	case "good":
		return report.Good
	case "bad":
		return report.Bad
	case "doubt":
		return report.Doubt
	}
	return report.Plain
}

// machines says where the runs took place: a row for each fact, or for each of its values if runs differ.
func machines(records []*series.Record) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "fact"}, {Name: "value"}, {Name: "runs"}}}
	add := func(fact string, of func(e results.Environment) string) {
		var values []string
		runs := map[string][]string{}
		for _, r := range records {
			v := of(r.Environment)
			if v == "" {
				continue
			}
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
			runs[v] = append(runs[v], r.Name())
		}
		for i, v := range values {
			row := report.Texts(fact, v, "all")
			if i > 0 {
				row[0].Text = ""
			}
			if len(values) > 1 {
				row[2].Text = strings.Join(runs[v], ", ")
			}
			s.Rows = append(s.Rows, row)
		}
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	add("CPU", func(e results.Environment) string { return e.CPU })
	add("CPU features", func(e results.Environment) string { return strings.Join(e.CPUFeatures, " ") })
	add("CPUs", func(e results.Environment) string { return number(int64(e.CPUs)) })
	add("threads", func(e results.Environment) string { return number(int64(e.Threads)) })
	add("memory", func(e results.Environment) string { return bytesText(e.Memory) })
	add("system", func(e results.Environment) string { return e.OS + "/" + e.Arch })
	add("Go", func(e results.Environment) string { return e.Go })
	add("harness", func(e results.Environment) string {
		v := strings.TrimSpace(e.Version + " " + e.Revision)
		if e.Modified {
			v += ", changed after the commit"
		}
		return v
	})
	add("build tags", func(e results.Environment) string { return e.Tags })
	add("transport", func(e results.Environment) string { return e.Transport })
	var plugins []string // KIND NAME
	for _, r := range records {
		for _, p := range r.Environment.Plugins {
			if name := p.Kind + " " + p.Name; !slices.Contains(plugins, name) {
				plugins = append(plugins, name)
			}
		}
	}
	for _, name := range plugins {
		add(name, func(e results.Environment) string {
			for _, p := range e.Plugins {
				if p.Kind+" "+p.Name == name {
					return fmt.Sprintf("version %s, SHA-256 %.16s", p.Version, p.SHA256)
				}
			}
			return ""
		})
	}
	if text := load(records); text != "" {
		s.Rows = append(s.Rows, report.Texts("load average, 1 minute", text, "all"))
	}
	return s
}

// load is the range of load averages; "" if no run recorded one.
func load(records []*series.Record) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range records {
		if l := r.Environment.LoadAverage; len(l) > 0 {
			low, high = min(low, l[0]), max(high, l[0])
		}
		if r.Result != nil && len(r.Result.LoadAverage) > 0 {
			low, high = min(low, r.Result.LoadAverage[0]), max(high, r.Result.LoadAverage[0])
		}
	}
	if low > high {
		return ""
	}
	return fmt.Sprintf("%.2f to %.2f at the starts and ends of the runs", low, high)
}

// bytesText formats a size in a suitable unit; "" for none.
func bytesText(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
