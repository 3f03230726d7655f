package report

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// shows reports whether the modelled figures of a phase are shown: on request, or where every arm's model was checked
// on programs like this one.
func (t *table) shows(phase string) bool { return t.anyModelled || len(t.unchecked(phase)) == 0 }

// doubt is why an arm's modelled figures lie outside what its model was checked on.
type doubt struct{ arm, why string }

// unchecked lists the doubts about the modelled figures of a phase.
func (t *table) unchecked(phase string) []doubt {
	var list []doubt
	for i, runs := range t.runs {
		for _, r := range runs {
			p, ok := r.Phase(phase)
			if !ok || p.ModelledSeconds == 0 || p.ModelledConfidence != nil && p.ModelledConfidence.Inside {
				continue
			}
			why := "it states no confidence"
			if p.ModelledConfidence != nil {
				why, _, _ = strings.Cut(p.ModelledConfidence.Why, ";") // one reason is enough here
			}
			list = append(list, doubt{t.Arms[i].Backend, why})
			break
		}
	}
	return list
}

// remarks are paragraphs below every table: what measured times are, and which modelled ones are left out.
func (t *table) remarks() []string {
	list := []string{"Measured times are wall time of the programs that ran here, not of the hardware that a backend stands for."}
	var reasons []string
	var arms []string
	for _, p := range t.Phases {
		for _, d := range t.unchecked(p.Name) {
			if !slices.Contains(arms, d.arm) {
				arms, reasons = append(arms, d.arm), append(reasons, d.arm+": "+d.why)
			}
		}
	}
	if len(arms) == 0 {
		return list
	}
	text := "Modelled times are left out where a model was never checked on such a program (--modelled shows them): "
	if t.anyModelled {
		text = "Modelled figures marked (outside) are of programs on which the model was never checked: "
	}
	return append(list, text+strings.Join(reasons, "; ")+".")
}

// modelled adds a row of modelled times or rates, each with its interval, system and format. There is no ratio: the
// systems, and often the formats, are different ones.
func (t *table) modelled(phase, quantity, label string, of func(results.PhaseResult) float64) {
	if !t.shows(phase) {
		return
	}
	r := row{phase, quantity, label, t.measure(func(r verdict.RunSummary) (float64, bool) {
		p, ok := r.Phase(phase)
		return of(p), ok && p.ModelledSeconds > 0 && of(p) > 0
	})}
	for i := range r.cells {
		c := &r.cells[i]
		c.change = nil
		if c.sample == nil {
			continue
		}
		p, _ := t.runs[i][0].Phase(phase)
		mean := float64(c.sample.Mean)
		digits := 1
		switch {
		case mean >= 1000:
			digits = 0
		case mean < 0.1:
			digits = 5 // a modelled device is done with a small model in no time
		}
		sure := p.ModelledConfidence.Of(float64(p.Sequences) / p.ModelledSeconds)
		c.text = decimal(mean, digits) + sure + fmt.Sprintf(" (%s, %s)", p.System, t.Arms[i].Precision)
	}
	t.add(r)
}

// fullSize adds the modelled hours of the recipe's counterpart, which nobody trained here.
func (t *table) fullSize() {
	r := row{phase: "full size, modelled", quantity: "modelled_hours", cells: make([]cell, len(t.Arms))}
	for _, f := range t.FullSize {
		for i, a := range t.Arms {
			if recipe.PluginName(a.Backend) != f.Backend {
				continue
			}
			sure := (&results.Confidence{High: f.High, Inside: f.Inside}).Of(f.Hours)
			r.label = f.Training + ", hours"
			r.cells[i].text = fmt.Sprintf("%.1f%s (%s, %s)", f.Hours, sure, f.System, f.Precision)
		}
	}
	t.add(r)
}
