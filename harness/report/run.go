package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/results"
)

// RunSheet is what a run was, where it took place, and its results.
func RunSheet(r *results.Run, tags []string) *Sheet {
	s := &Sheet{Columns: []Column{{Name: "field"}, {Name: "value"}}}
	heading := func(name string) {
		s.Rows = append(s.Rows, Row{{Text: name, Mark: Strong}, {}})
	}
	add := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			s.Rows = append(s.Rows, Texts("  "+name, text))
		}
	}
	heading("run")
	add("id", "%s", r.ID)
	add("folder", "%s", r.Dir)
	add("tags", "%s", strings.Join(tags, " "))
	add("recipe", "%s", r.Identity.Recipe)
	add("fingerprint", "%s", r.Fingerprint)
	add("data digest", "%s", r.DataDigest)
	if r.Start != "" {
		add("start model", "%s", r.Start)
	}
	add("backend", "%s", r.Backend)
	add("format", "%s", r.Precision)
	add("optimizer", "%s", r.Optimizer)
	add("seed", "%d", r.Seed)
	e := r.Environment
	heading("environment")
	add("started", "%s", e.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	add("machine", "%s, %d CPUs, GOMAXPROCS %d, %.1f GiB", e.CPU, e.CPUs, e.Threads, float64(e.Memory)/(1<<30))
	add("instructions", "%s", strings.Join(e.CPUFeatures, " "))
	add("kernels", "%s", e.Kernels)
	add("system", "%s/%s, %s", e.OS, e.Arch, e.Go)
	add("program", "%s", strings.TrimSpace(e.Version+" "+e.Revision+map[bool]string{true: ", changed after it"}[e.Modified]))
	add("load at start", "%s", loadText(e.LoadAverage))
	for _, p := range e.Plugins {
		if p.Attached != "" {
			add(p.Kind+" "+p.Name, "version %s, attached at %s", p.Version, p.Attached)
			continue
		}
		add(p.Kind+" "+p.Name, "version %s, SHA-256 %.12s, %s", p.Version, p.SHA256, p.Path)
		add(p.Kind+" "+p.Name+" started with", "%d threads, in %s", p.Threads, p.Folder)
	}
	heading("result")
	state, why := r.State()
	add("status", "%s", state)
	if state != results.Complete {
		add("why", "%s", why)
	}
	res := r.Result
	if res == nil {
		return s
	}
	for _, p := range res.Phases {
		for _, name := range slices.Sorted(maps.Keys(p.Metrics)) {
			add(p.Name+" "+name, "%.6g", p.Metrics[name])
		}
		add(p.Name+" steps", "%d, %d skipped", p.Steps, p.Skipped)
		add(p.Name+" measured seconds", "%.1f, %.4g sequences/s", p.MeasuredSeconds[results.TotalSeconds], p.SequencesPerSecond())
		if t := p.Target; t != nil && t.Step > 0 {
			add(p.Name+" target", "%s %g after %d steps, measured seconds %.1f", t.Metric, t.Value, t.Step, t.MeasuredSeconds)
		} else if t != nil {
			add(p.Name+" target", "%s %g was not reached", t.Metric, t.Value)
		}
	}
	add("batch digest", "%s", res.BatchDigest)
	add("measured seconds", "%.1f", res.MeasuredSeconds[results.TotalSeconds])
	add("load at end", "%s", loadText(res.LoadAverage))
	for _, n := range res.Notes {
		add("note", "%s", n)
	}
	return s
}

func loadText(load []float64) string {
	text := make([]string, len(load))
	for i, v := range load {
		text[i] = strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strings.Join(text, " ")
}

// DiffSheet is how two runs differ, from cause to effect.
func DiffSheet(d *results.RunDiff) *Sheet {
	s := &Sheet{Columns: []Column{{Name: "field"}, {Name: d.A, Key: "a"}, {Name: d.B, Key: "b"}}}
	section := func(name string, fields []results.FieldDiff) {
		if len(fields) == 0 {
			s.Notes = append(s.Notes, name+": the same.")
			return
		}
		s.Rows = append(s.Rows, Row{{Text: name, Mark: Strong}, {}, {}})
		for _, f := range fields {
			s.Rows = append(s.Rows, Texts("  "+f.Field, orDash(f.A), orDash(f.B)))
		}
	}
	section("identity", d.Identity)
	var recipes []results.FieldDiff
	for _, r := range d.Recipe {
		recipes = append(recipes, results.FieldDiff{Field: r.Path, A: r.A, B: r.B})
	}
	section("recipe", recipes)
	section("environment", d.Environment)
	section("plugins", d.Plugins)
	section("results", d.Results)
	switch p := d.Parting; {
	case p == nil && d.Steps == 0:
		s.Notes = append(s.Notes, "The runs have no steps to compare.")
	case p == nil:
		s.Notes = append(s.Notes, fmt.Sprintf("All %d steps that both took have the same bits.", d.Steps))
	default:
		s.Notes = append(s.Notes, fmt.Sprintf("They part at %s step %d: %s %.17g, %.17g. The %d steps before have the same bits.",
			p.Phase, p.Step, p.Quantity, float64(p.A), float64(p.B), d.Steps))
	}
	return s
}
