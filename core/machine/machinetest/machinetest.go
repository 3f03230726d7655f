// Package machinetest tests a backend's machine model against published throughput: its constants are the fitted
// ones, its errors stay within the goal, and docs/machines.md shows them.
package machinetest

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/machine"
	"harness.invalid/core/optimizer"
)

var update = flag.Bool("update", false, "fit the constants, and write them and the table of the documentation")

// Model is the machine model of a backend.
type Model struct {
	Name      string          // of the table in the document
	Checked   machine.Checked // with the published rows
	Constants string          // file of the fitted constants and of Checked.Errors
	Document  string          // that has the table
	Start     []float64
	// Write gives the constants as the file has them.
	Write func(constants []float64) string
	// Fitted are the constants that the model has.
	Fitted []float64
	// Optimizers are those of the rows, by name.
	Optimizers map[string]optimizer.Optimizer
	// SequencesPerSecond is what the model says of a row's program with given constants.
	SequencesPerSecond func(r *machine.Row, update optimizer.Cost, constants []float64) (float64, error)

	rate func(r *machine.Row, constants []float64) (float64, error) // SequencesPerSecond, remembered
}

// Update is the cost of an optimizer over the parameters of a program.
func Update(t testing.TB, o optimizer.Optimizer, options map[string]string, p backend.Program) optimizer.Cost {
	t.Helper()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	c, err := optimizer.CostOf(t.Context(), o, options, l)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The goal: median error over all rows, and greatest error of those that are not marked as unexplained.
const (
	medianGoal   = 0.05
	greatestGoal = 0.12
)

// Check runs all tests. With -update it fits first.
func Check(t *testing.T, m Model) {
	rows := m.Checked.Rows
	m.remember(t)
	if *update {
		m.fit(t, rows)
	}
	if len(m.Checked.Errors) != len(rows) {
		t.Fatalf("%s has %d errors of %d rows: run go generate", m.Constants, len(m.Checked.Errors), len(rows))
	}
	m.checkFit(t, rows)
	m.checkDocument(t, m.table(t, rows))
}

// remember caches throughputs and optimizer costs, since fits of other rows ask for the same ones.
func (m *Model) remember(t *testing.T) {
	said, costs := map[string]float64{}, map[string]optimizer.Cost{}
	m.rate = func(r *machine.Row, c []float64) (float64, error) {
		row := fmt.Sprint(*r)
		key := fmt.Sprint(row, c)
		if v, ok := said[key]; ok {
			return v, nil
		}
		if _, ok := costs[row]; !ok {
			p, err := r.Program()
			if err != nil {
				return 0, err
			}
			costs[row] = Update(t, m.Optimizers[r.Optimizer.Name], r.Optimizer.Options, p)
		}
		v, err := m.SequencesPerSecond(r, costs[row], c)
		said[key] = v
		return v, err
	}
}

func fittedRows(rows []machine.Row) []machine.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r machine.Row) bool { return r.HeldOut })
}

// fit writes the constants that fit best, and the errors of rows that were not fitted.
func (m *Model) fit(t *testing.T, rows []machine.Row) {
	c, err := machine.Fit(fittedRows(rows), m.Start, m.rate)
	if err != nil {
		t.Fatal(err)
	}
	// So few rows support no more than three digits.
	for i := range c {
		c[i] = round(c[i])
	}
	m.Fitted, m.Checked.Errors = c, nil
	text := m.Write(c) + "unseen_errors: # of published.yaml's rows, not fitted with them\n"
	for i := range rows {
		e := m.unseen(t, rows, &rows[i])
		m.Checked.Errors = append(m.Checked.Errors, e)
		text += fmt.Sprintf("- %.4f\n", e)
	}
	if err := os.WriteFile(m.Constants, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// unseen is the error of a row by a model that was fitted without its program, to four digits.
func (m *Model) unseen(t *testing.T, rows []machine.Row, r *machine.Row) float64 {
	e := m.modelled(t, r, m.Fitted)/r.Published() - 1
	if !r.HeldOut {
		e = m.leftOut(t, rows, r)
	}
	return math.Round(1e4*e) / 1e4
}

func round(v float64) float64 {
	scale := math.Pow(10, 2-math.Floor(math.Log10(v)))
	return math.Round(v*scale) / scale
}

// checkFit tests that moving any constant by 5% does not improve the fit by more than a tenth, so that the file belongs
// to these rows and this model. The tenth allows for rounded constants and for plans that change in jumps.
func (m *Model) checkFit(t *testing.T, rows []machine.Row) {
	fitted := fittedRows(rows)
	loss := func(c []float64) float64 {
		sum := 0.
		for i := range fitted {
			d := math.Log(m.modelled(t, &fitted[i], c) / fitted[i].Published())
			sum += d * d
		}
		return sum
	}
	const slack = 0.9
	least := loss(m.Fitted)
	for i := range m.Fitted {
		for _, by := range []float64{0.95, 1.05} {
			moved := slices.Clone(m.Fitted)
			moved[i] *= by
			if l := loss(moved); l < slack*least {
				t.Errorf("constant %d times %g fits better (%.5f) than the one in %s (%.5f): run go generate", i, by, l, m.Constants, least)
			}
		}
	}
}

// table is the table of the document: all rows, the fitted ones first. The last column is the error of a model that was
// fitted without the row's program.
func (m *Model) table(t *testing.T, rows []machine.Row) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| Row | System | Replicas | Software, format | Published seq/s | Modelled | Error | Error when not fitted |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|")
	var errors []float64
	for _, held := range []bool{false, true} {
		for i := range rows {
			r := &rows[i]
			if r.HeldOut != held {
				continue
			}
			v := m.modelled(t, r, m.Fitted)
			e, u := v/r.Published()-1, m.Checked.Errors[i]
			last := fmt.Sprintf("%+.1f%%", 100*u)
			if held {
				last = "held out"
				if math.Abs(e-u) > 1e-4 {
					t.Errorf("%s on %s, held out: error %.4f, %s has %.4f: run go generate", r.Name, r.System, e, m.Constants, u)
				}
			}
			if beyond := math.Abs(e) > greatestGoal; beyond != (r.Unexplained != "") {
				t.Errorf("%s, %s, on %s: error %.1f%% and unexplained %q: want a reason exactly where it is beyond %.0f%%",
					r.Name, r.Precision, r.System, 100*e, r.Unexplained, 100*greatestGoal)
			}
			errors = append(errors, math.Abs(e))
			fmt.Fprintf(&b, "| %s | %s | %d | %s, %s | %s | %s | %+.1f%% | %s |\n",
				r.Name, r.System, r.Replicas, r.Framework, r.Precision, figure(r, r.Published()), figure(r, v), 100*e, last)
		}
	}
	slices.Sort(errors)
	median, greatest := middle(errors), errors[len(errors)-1]
	if median > medianGoal {
		t.Errorf("median error %.1f%%: want at most %.0f%%", 100*median, 100*medianGoal)
	}
	fmt.Fprintf(&b, "\nMedian error %.1f%%, greatest %.1f%%. Rows that were not fitted, and how many of them lie in the %.0f%% interval\n"+
		"from the errors of all others:\n\n", 100*median, 100*greatest, 100*machine.ConfidenceLevel)
	fmt.Fprint(&b, "| Rows | Number | Median error | Greatest error | In the interval |\n|---|---|---|---|---|\n")
	for _, held := range []bool{false, true} {
		b.WriteString(m.coverage(rows, held))
	}
	return b.String()
}

// coverage is a line on the errors of rows that are held out, or of those that are fitted in fits without them.
func (m *Model) coverage(rows []machine.Row, held bool) string {
	var errors []float64
	inside := 0
	for i, covered := range m.Checked.Covered() {
		if rows[i].HeldOut == held {
			errors = append(errors, math.Abs(m.Checked.Errors[i]))
			if covered {
				inside++
			}
		}
	}
	slices.Sort(errors)
	name := "fitted without their own program"
	if held {
		name = "held out"
	}
	return fmt.Sprintf("| %s | %d | %.1f%% | %.1f%% | %d |\n", name, len(errors), 100*middle(errors), 100*errors[len(errors)-1], inside)
}

// figure shows sequences a second with four digits, and how many times as many with three.
func figure(r *machine.Row, v float64) string {
	if r.Times > 0 {
		return fmt.Sprintf("x %.1f", v)
	}
	return strconv.FormatFloat(v, 'f', max(0, 3-int(math.Log10(v))), 64)
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (m *Model) modelled(t *testing.T, r *machine.Row, c []float64) float64 {
	v, err := r.Modelled(func(r *machine.Row) (float64, error) { return m.rate(r, c) })
	if err != nil {
		t.Fatalf("%s on %s: %v", r.Name, r.System, err)
	}
	return v
}

// leftOut is the error of a row after a fit without all rows of its name: the same program in another format or on
// another system would give it away.
func (m *Model) leftOut(t *testing.T, rows []machine.Row, r *machine.Row) float64 {
	others := slices.DeleteFunc(fittedRows(rows), func(o machine.Row) bool { return o.Name == r.Name })
	c, err := machine.Fit(others, m.Start, m.rate)
	if err != nil {
		t.Fatal(err)
	}
	return m.modelled(t, r, c)/r.Published() - 1
}

func (m *Model) marks() (begin, end string) {
	return "<!-- table of " + m.Name + ": go generate -->\n", "<!-- end -->\n"
}

// shown is the table that the document has.
func (m *Model) shown(t *testing.T) string {
	text, err := os.ReadFile(m.Document)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := m.marks()
	_, rest, ok := strings.Cut(string(text), begin)
	table, _, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table between %q and %q", m.Document, begin, end)
	}
	return table
}

func (m *Model) checkDocument(t *testing.T, table string) {
	before := m.shown(t)
	if before == table || t.Failed() {
		return
	}
	if !*update {
		t.Errorf("the table in %s is not what the model says: run go generate. Want\n%s", m.Document, table)
		return
	}
	text, err := os.ReadFile(m.Document)
	if err != nil {
		t.Fatal(err)
	}
	begin, _ := m.marks()
	if err := os.WriteFile(m.Document, []byte(strings.Replace(string(text), begin+before, begin+table, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
}
