package scoring

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/results"
)

// TestReferencePointsOfBERT rebuilds the limits that rcp_checker computes for BERT from the statistics of
// rcps_bert.json, ruleset 5.0.0, for the 10 runs of a submission.
func TestReferencePointsOfBERT(t *testing.T) {
	for _, c := range []struct {
		batch, n int
		mean, sd float64
		least    float64
		speedup  float64
	}{
		{256, 20, 2_549_220, 218_406, 2_390_442, 1.0664}, {448, 23, 2_414_421, 197_392, 2_274_732, 1.0614},
		{3072, 20, 2_764_499, 166_119, 2_643_732, 1.0457},
		{8192, 20, 4_186_112, 88_431, 4_121_824, 1.0156}, {16384, 20, 5_505_422, 144_643, 5_400_269, 1.0195},
	} {
		p := ReferencePoint{Batch: float64(c.batch), Runs: c.n, Mean: c.mean, SD: c.sd}
		near(t, "least mean", p.least(10), c.least, 5) // mean and sd are rounded
		near(t, "speed-up", p.Mean/p.least(10), c.speedup, 5e-5)
	}
}

// TestPruneAsRCPChecker holds pruning and interpolation against rcp_checker itself (mlcommons/logging 4.1.59, Apache-2.0)
// on rcps_bert.json of ruleset 5.0.0: after it drops a point it goes on without looking back, so 448 to 4608 stay apart.
func TestPruneAsRCPChecker(t *testing.T) {
	var points []ReferencePoint
	for _, p := range []struct {
		batch    float64
		runs     int
		mean, sd float64
	}{
		{256, 20, 2549219.556, 218406.4}, {448, 23, 2414421.333, 197392.4765}, {1536, 20, 2776278, 82208},
		{3072, 20, 2764498.667, 166119}, {4096, 20, 2843989.333, 116600}, {4608, 20, 2798080, 130963.7053},
		{6144, 20, 3319125.333, 146691.1363}, {6912, 20, 3601920, 121792.777}, {8192, 20, 4186112, 88431},
		{8704, 20, 4273706.667, 134042}, {12288, 20, 4465066.667, 88564.0454}, {13056, 20, 4645333.333, 179017.324},
		{16384, 20, 5505422.222, 144642.7095},
	} {
		points = append(points, ReferencePoint{fmt.Sprint(p.batch), p.batch, p.runs, p.mean, p.sd})
	}
	var kept []string
	for _, p := range prune(points) {
		kept = append(kept, p.Name)
	}
	if got, want := strings.Join(kept, " "), "448 4608 6144 6912 12288 13056 16384"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	runs := slices.Repeat([]float64{4e6}, 10)
	for _, c := range []struct{ batch, mean, least float64 }{
		{448, 2414421.333, 2274732.029}, {16384, 5505422.222, 5400269.129}, // points
		{1000, 2465329.887, 2330777.457}, {3072, 2656421.415, 2545476.671}, {5000, 2931055.111, 2834747.174},
		{8192, 3807431.111, 3726175.622},
	} {
		r, err := CheckConvergence(points, c.batch, runs)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "reference", float64(r.Reference), c.mean, 0.01)
		near(t, "least", float64(r.Least), c.least, 0.2) // its bisection ends at 1e-4, and the table above is rounded
	}
}

func TestConvergenceRules(t *testing.T) {
	points := []ReferencePoint{{"a", 100, 20, 1200, 50}, {"b", 200, 20, 1000, 50}, {"c", 300, 20, 1500, 50}, {"d", 400, 20, 1400, 50}}
	var kept []string
	for _, p := range prune(points) {
		kept = append(kept, p.Name)
	}
	if got := strings.Join(kept, ""); got != "bd" {
		t.Errorf("kept %s, want bd: a lies below the fastest, c above the line from b to d", got)
	}
	inf := math.Inf(1)
	ten := func(v float64) []float64 { return []float64{v, v, v, v, v, v, v, v, v - 1, v + 1} }
	for _, c := range []struct {
		name    string
		batch   float64
		samples []float64
		passed  bool
		point   string
		factor  float64
	}{
		{"as the reference", 200, ten(1000), true, "b", 1},
		{"slower", 200, ten(1500), true, "b", 1},
		{"a little faster", 200, ten(980), true, "b", 1000.0 / 980},
		{"too fast", 200, ten(900), false, "b", 1},
		{"at a point that was pruned", 300, ten(1201), true, "between b and d", 1},
		{"between", 300.5, ten(1201), true, "between b and d", (1000 + 400*100.5/200) / 1201},
		{"below all that are kept", 50, ten(1000), true, "b", 1},
		{"above all", 500, ten(9000), false, "", 1},
		{"one run did not converge", 200, append(ten(1000)[:9], inf), true, "b", 1},
		{"two did not", 200, append(ten(1000)[:8], inf, inf), false, "", 1},
	} {
		r, err := CheckConvergence(points, c.batch, c.samples)
		if err != nil || r.Passed != c.passed || r.Point != c.point || math.Abs(float64(r.Normalization)-max(1, c.factor)) > 1e-3 {
			t.Errorf("%s: %+v, %v, want passed %v by %q, factor %g", c.name, r, err, c.passed, c.point, c.factor)
		}
	}
	if _, err := CheckConvergence(points, 200, []float64{1, 2}); err == nil {
		t.Error("two runs have an olympic mean")
	}
}

func TestReadReferencePoints(t *testing.T) {
	p, err := ReadReferencePoints([]byte(`{"bert_ref_448": {"Benchmark": "bert", "BS": 448, "Epochs to converge": [4, 1, 2, 3, 100]},
		"bert_ref_256": {"BS": 256, "Epochs to converge": [2, 2, 2, 2]}}`))
	if err != nil || len(p) != 2 || p[0].Batch != 256 || p[1].Mean != 3 || p[1].Runs != 5 {
		t.Errorf("points are %+v, %v", p, err)
	}
	for text, want := range map[string]string{`{`: "unexpected end", `{}`: "no point", `{"a": {"BS": 1}}`: "4 runs or more",
		`{"a": {"BS": 1, "Epochs to converge": [1,1,1,1]}, "b": {"BS": 1, "Epochs to converge": [1,1,1,1]}}`: "two points"} {
		if _, err := ReadReferencePoints([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", text, err, want)
		}
	}
}

// TestProfiles: by hand. The ratios are 1 and 2 on the first workload, 3 and 1 on the second; only the first
// algorithm finishes the third, and none the fourth.
func TestProfiles(t *testing.T) {
	inf := math.Inf(1)
	p := Profiles([][]float64{{10, 30, 5, inf}, {20, 10, inf, inf}})
	near(t, "share at 1", p[0].Share(1), 0.5, 0)
	near(t, "share at 3", p[0].Share(3), 0.75, 0)
	near(t, "score", p[0].Score(), (3+1+3)/3.0/4, 1e-12)
	near(t, "score", p[1].Score(), (2+3)/3.0/4, 1e-12)
	// The area under the steps of the profile, summed up over a fine grid as the published program does, is the same.
	const n = 300_000
	sum := 0.0
	for i := range n {
		sum += p[0].Share(1+3*(float64(i)+0.5)/n) / n
	}
	near(t, "score by a grid", p[0].Score(), sum, 1e-5)
	if s := Profiles([][]float64{{1, 2, 3}, {1, 2, 3}}); s[0].Score() != 1 || s[1].Score() != 1 {
		t.Errorf("two that are as fast score %g and %g, want 1", s[0].Score(), s[1].Score())
	}
}

// near fails unless got is want to the digits that were published.
func near(t *testing.T, what string, got, want, half float64) {
	t.Helper()
	if !(math.Abs(got-want) <= half) {
		t.Errorf("%s is %.7g, want %.7g", what, got, want)
	}
}

// TestEvaluating: MLPerf's clock runs during the evaluations of the phase, up to the one that reached the target.
func TestEvaluating(t *testing.T) {
	dir := t.TempDir()
	lines := `{"phase":"warm","step":1,"measured_seconds":50}
{"phase":"squad","step":2,"measured_seconds":1.5}
{"phase":"squad","step":4,"measured_seconds":2}
{"phase":"squad","step":6,"measured_seconds":100}
`
	if err := os.WriteFile(filepath.Join(dir, "evaluations.jsonl"), []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	seconds, err := evaluating([]*results.Run{{Dir: "another"}, {Dir: dir}}, dir, "squad", 4)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "seconds", seconds, 3.5, 1e-12)
	if _, err := evaluating(nil, dir, "squad", 4); err == nil {
		t.Error("evaluations of a run that is not there")
	}
}
