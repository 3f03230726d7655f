package page

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/report"
	"harness.invalid/harness/series"
	"harness.invalid/results/verdict"
)

// setting is the value of a setting of an arm in a phase.
type setting struct{ phase, name, value string }

// settingsOf are what the fingerprint does not cover: the settings of the backend and of the optimizer.
func settingsOf(r *series.Record) []setting {
	var all []setting
	backend, err := recipe.ParseSpec(r.Backend)
	if err != nil {
		backend = recipe.Spec{Name: r.Backend} // by another version of harness
	}
	for i := range r.Recipe.Phases {
		p := &r.Recipe.Phases[i]
		set := func(name, value string) { all = append(all, setting{p.Name, name, value}) }
		set("backend", backend.Name)
		set("format", r.Precision)
		options := r.Recipe.ForBackend(backend.Name, backend.Precision, p.Name).Options
		maps.Copy(options, backend.Options)
		for _, name := range slices.Sorted(maps.Keys(options)) {
			set(name, options[name])
		}
		o := p.OptimizerNamed(r.Optimizer)
		set("optimizer", o.Name)
		set("learning rate", strconv.FormatFloat(o.LearningRate, 'g', -1, 64))
		for _, name := range slices.Sorted(maps.Keys(o.Options)) {
			set(o.Name+"'s "+name, o.Options[name])
		}
	}
	return all
}

// differences lists the settings in which arms differ; nil for one arm. Phases with the same values share a row.
func differences(c *verdict.Comparison, records []*series.Record) *report.Sheet {
	if len(c.Arms) < 2 {
		return nil
	}
	s := &report.Sheet{Columns: []report.Column{{Name: "setting"}}}
	type place struct{ name, phase string }
	var names []string
	values := map[place][]string{} // by arm
	for i, a := range c.Arms {
		s.Columns = append(s.Columns, report.Column{Name: a.Arm.String()})
		for _, v := range settingsOf(records[slices.IndexFunc(records, func(r *series.Record) bool { return r.Arm() == a.Arm })]) {
			if !slices.Contains(names, v.name) {
				names = append(names, v.name)
			}
			at := place{v.name, v.phase}
			if values[at] == nil {
				values[at] = slices.Repeat([]string{"-"}, len(c.Arms))
			}
			values[at][i] = v.value
		}
	}
	for _, name := range names {
		var rows [][]string // that differ
		var phases [][]string
		for _, p := range c.Phases {
			v := values[place{name, p.Name}]
			if len(slices.Compact(slices.Clone(v))) < 2 {
				continue
			}
			i := slices.IndexFunc(rows, func(row []string) bool { return slices.Equal(row, v) })
			if i < 0 {
				i = len(rows)
				rows, phases = append(rows, v), append(phases, nil)
			}
			phases[i] = append(phases[i], p.Name)
		}
		for i, row := range rows {
			label := name
			if len(phases[i]) < len(c.Phases) {
				label += " in " + strings.Join(phases[i], ", ")
			}
			s.Rows = append(s.Rows, report.Texts(append([]string{label}, row...)...))
		}
	}
	if len(c.Arms) > abreast {
		return turned(s)
	}
	return s
}

// abreast is how many arms stand side by side. More of them stand one below the other.
const abreast = 4

// turned is a table with rows for columns.
func turned(s *report.Sheet) *report.Sheet {
	t := &report.Sheet{Columns: []report.Column{{Name: "arm"}}}
	for _, r := range s.Rows {
		t.Columns = append(t.Columns, report.Column{Name: r[0].Text})
	}
	for i := 1; i < len(s.Columns); i++ {
		row := report.Texts(s.Columns[i].Name)
		for _, r := range s.Rows {
			row = append(row, r[i])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// sources are the recipes of the runs. Runs share everything that the fingerprint covers; if settings of backends
// differ, there are several.
func sources(records []*series.Record) ([]source, error) {
	var all []source
	var names [][]string // of the runs of each source
	written := map[*recipe.Recipe]int{}
	for _, r := range records {
		i, ok := written[r.Recipe]
		if !ok {
			var text bytes.Buffer
			if err := r.Recipe.Write(&text); err != nil {
				return nil, fmt.Errorf("run %s: recipe: %w", r.Dir, err)
			}
			i = slices.IndexFunc(all, func(s source) bool { return s.Text == text.String() })
			if i < 0 {
				all, names = append(all, source{Text: text.String()}), append(names, nil)
				i = len(all) - 1
			}
			written[r.Recipe] = i
		}
		names[i] = append(names[i], r.Name())
	}
	for i := range all {
		all[i].Name = strings.Join(names[i], ", ")
	}
	if len(all) == 1 {
		all[0].Name = "all runs"
	}
	return all, nil
}
