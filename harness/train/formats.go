package train

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/results"
)

// noteFormats notes the first step of a phase in which a format saturates or flushes much of an operand, and the operand
// that it is worst for.
func (p *phase) noteFormats(l *results.Step) {
	begin := fmt.Sprintf("phase %s: number formats: ", p.recipe.Name)
	worst, what := 1.0, ""
	for _, q := range l.Quantised {
		for _, of := range []struct {
			share, most float64
			text        string
		}{{q.Saturated, results.MostSaturated, "saturated"}, {q.Flushed, results.MostFlushed, "became zero"}} {
			if of.share/of.most > worst {
				worst = of.share / of.most
				what = fmt.Sprintf("%.3g%% of %s of %s %s in %s, more than %g%%", 100*of.share, q.Operand, q.Operator, of.text, q.Format,
					100*of.most)
			}
		}
	}
	if what == "" || slices.ContainsFunc(p.outcome.Notes, func(n string) bool { return strings.HasPrefix(n, begin) }) {
		return
	}
	p.note("%sin step %d %s", begin, l.Step, what)
}
