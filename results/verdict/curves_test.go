package verdict

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"harness.invalid/results"
)

func TestAreaBetween(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []results.Point
		want float64
	}{
		{"parallel", line(0, 1, 10, 2), line(0, 3, 10, 4), 2},
		{"triangle", line(0, 0, 10, 0), line(0, 0, 10, 4), 2},
		{"crossing", line(0, 0, 10, 10), line(0, 10, 10, 0), 0},
		{"other steps", line(0, 0, 5, 5, 10, 0), line(0, 0, 10, 0), -2.5},
		{"overlap of 5 to 10", line(0, 0, 10, 0), line(5, 1, 15, 1), 1},
		{"no overlap", line(0, 0, 1, 0), line(2, 0, 3, 0), math.NaN()},
		{"one point", line(0, 0), line(0, 0, 1, 0), math.NaN()},
	} {
		if got := areaBetween(c.a, c.b, byStep); math.Abs(got-c.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
}

// TestAreaProperties: turned around the area changes its sign, and a constant that is added to one curve is added
// to it.
func TestAreaProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		curve := func(name string) []results.Point {
			var c []results.Point
			step := 0
			for range rapid.IntRange(2, 8).Draw(t, name) {
				c = append(c, results.Point{Step: step, Value: rapid.Float64Range(-5, 5).Draw(t, "y")})
				step += rapid.IntRange(1, 9).Draw(t, "x")
			}
			return c
		}
		a, b := curve("a"), curve("b")
		area := areaBetween(a, b, byStep)
		if back := areaBetween(b, a, byStep); math.Abs(area+back) > 1e-9 {
			t.Errorf("%g there, %g back", area, back)
		}
		for i := range b {
			b[i].Value += 3
		}
		if up := areaBetween(a, b, byStep); math.Abs(up-area-3) > 1e-9 {
			t.Errorf("%g, and 3 higher %g", area, up)
		}
	})
}

// TestFollow: a comparison of recorded runs has their curves, targets, times and examples.
func TestFollow(t *testing.T) {
	r := quick(t)
	var runs []*results.Run
	for i, run := range runsWithF1(r, []float64{70, 75}, []float64{80, 85}) {
		dir := t.TempDir()
		id := run.Identity
		id.Seed = run.Seed
		w, err := results.Create(dir, id, r, results.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		arm := float64(i / 2) // the second arm loses 0.5 less and takes half the time
		for n := 1; n <= 40; n++ {
			took := 0.2 - 0.1*arm
			if n <= 2 {
				took = 9 // warming up
			}
			if n == 7 {
				took = 0.01 // skipped, with nothing to update
			}
			s := results.Step{Phase: "squad", Step: n, TotalStep: n, Finite: n != 7,
				Metrics: results.Metrics{"loss": 4 - 0.05*float64(n) - 0.5*arm}, MeasuredSeconds: map[string]float64{results.TotalSeconds: took}}
			if err := w.Step(s); err != nil {
				t.Fatal(err)
			}
		}
		for n, f1 := range []float64{60 + 10*arm, 100} {
			if err := w.Evaluation(results.Evaluation{Phase: "squad", Step: 20 * (n + 1), TrainingSeconds: float64(10 * (n + 1)),
				Metrics: results.Metrics{"f1": f1}}); err != nil {
				t.Fatal(err)
			}
		}
		scores, err := json.Marshal(map[string]map[string]float64{"f1": {"q1": 50 + 10*arm, "q2": 90 + 10*arm}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, results.ScoresFile("squad")), scores, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(*run.Result); err != nil {
			t.Fatal(err)
		}
		if run, err = results.Open(dir); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	if curves, err := runs[0].Curves(); err != nil || curves[2].FastestStepSeconds != 0.2 || curves[0].FastestStepSeconds != 0 {
		t.Errorf("the fastest steps are %v and %v s, %v, want 0.2 and none", curves[2].FastestStepSeconds, curves[0].FastestStepSeconds, err)
	}
	c, err := Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Comparisons[0]
	if len(p.Curves) != 2 || p.Curves[0].Metric != results.TrainingLoss ||
		math.Abs(float64(p.Curves[0].AreaBySteps.Difference)+0.5) > 1e-9 || p.Curves[0].AreaBySteps.Inference == nil {
		t.Errorf("curves are %+v, want the loss 0.5 lower", p.Curves)
	}
	// F1 80 lies half of the way from 60 at 20 to 100 at 40 on one arm, a third of the way from 70 on the other.
	if len(p.Targets) != 1 || p.Targets[0].Reached != 2 || math.Abs(float64(p.Targets[0].Steps.Difference)-(20+20.0/3-30)) > 1e-9 {
		t.Errorf("targets are %+v, want 3.33 steps less", p.Targets)
	}
	if s := c.Arms[0].Times[2].StepSeconds; s == nil || s.Median != 0.2 {
		t.Errorf("a step of the baseline takes %+v, want 0.2 s without the first ones", s)
	}
	if s := p.Times[0].StepSeconds; s == nil || s.Ratio != 0.5 {
		t.Errorf("times of steps are %+v, want half", s)
	}
	if d, _ := p.Metric("squad", "f1"); d.MultiBootstrap == nil || d.MultiBootstrap.Seeds != 2 || d.MultiBootstrap.Examples != 2 ||
		d.MultiBootstrap.Interval.Low != 10 {
		t.Errorf("over questions: %+v, want 10", d.MultiBootstrap)
	}
	if b := c.Curves[len(c.Curves)-1]; b.Arm.Backend != "ipu" || b.Metric != results.TrainingLoss || len(b.Points) != 40 ||
		b.Points[0].N != 2 {
		t.Errorf("the last band is %+v", b)
	}
}

func line(points ...float64) []results.Point {
	var c []results.Point
	for i := 0; i < len(points); i += 2 {
		c = append(c, results.Point{Step: int(points[i]), Seconds: points[i] / 10, Value: points[i+1]})
	}
	return c
}
