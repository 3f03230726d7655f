package report

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// shows reports whether the modelled figures of a phase are shown: on request, or where every arm's model was checked
// on programs like this one.
func (t *table) shows(phase string) bool { return t.anyModelled || len(t.unchecked(phase)) == 0 }

// unchecked lists the arms whose modelled figures of a phase lie outside what their models were checked on, with the
// reason.
func (t *table) unchecked(phase string) []string {
	var list []string
	for i, runs := range t.runs {
		for _, r := range runs {
			p, ok := r.Phase(phase)
			if !ok || p.ModelledSeconds == 0 || p.ModelledConfidence != nil && p.ModelledConfidence.Inside {
				continue
			}
			why := "it states no confidence"
			if p.ModelledConfidence != nil {
				why = p.ModelledConfidence.Why
			}
			list = append(list, fmt.Sprintf("%s (%s)", t.Arms[i].Backend, why))
			break
		}
	}
	return list
}

// remarks are paragraphs below every table: what measured times are, and which modelled ones are left out.
func (t *table) remarks() []string {
	list := []string{"Measured times are wall time of the programs that ran here, not of the hardware that a backend stands for."}
	var outside []string
	for _, p := range t.Phases {
		for _, a := range t.unchecked(p.Name) {
			if !slices.Contains(outside, a) {
				outside = append(outside, a)
			}
		}
	}
	switch {
	case len(outside) == 0:
	case t.anyModelled:
		list = append(list, "Modelled figures marked (outside) are of programs on which the model was never checked: "+
			strings.Join(outside, "; ")+".")
	default:
		list = append(list, "Modelled times are left out where a model was never checked on such a program (--modelled shows them): "+
			strings.Join(outside, "; ")+".")
	}
	return list
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
		c.text = decimal(mean, digits) + sureness(&p) + fmt.Sprintf(" (%s, %s)", p.System, t.Arms[i].Precision)
	}
	t.add(r)
}

// sureness follows a modelled figure: its interval, or that the program is unlike all that the model was checked on.
func sureness(p *results.PhaseResult) string {
	if c := p.ModelledConfidence; c != nil && c.Inside {
		return fmt.Sprintf(" ±%.0f%%", 100*(c.High*p.ModelledSeconds/float64(p.Sequences)-1))
	}
	return " (outside)"
}
