package tuning

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/results"
)

// TestTrials: the points are the same each time, lie in the space, and of 27 each third of a range has 9, as Halton's
// sequence promises in base 3.
func TestTrials(t *testing.T) {
	s := Space{"a": {Min: 1, Max: 1000, Scaling: "log"}, "b": {Min: -1, Max: 2, Scaling: "linear"}, "c": {Values: []any{"x", 2.0}}}
	points := s.Points(27, 7)
	thirds := make([]int, 3)
	words := map[string]int{}
	for _, p := range points {
		value := func(i int) string { _, v, _ := strings.Cut(p[i], "="); return v }
		a, err := strconv.ParseFloat(value(0), 64)
		if err != nil || a < 1 || a > 1000 {
			t.Errorf("%s lies outside of 1 to 1000", p[0])
		}
		b, err := strconv.ParseFloat(value(1), 64)
		if err != nil || b < -1 || b > 2 {
			t.Fatalf("%s lies outside of -1 to 2", p[1])
		}
		thirds[min(int(math.Floor(b+1)), 2)]++
		words[value(2)]++
	}
	if !slices.Equal(thirds, []int{9, 9, 9}) {
		t.Errorf("the thirds have %v points, want 9 each", thirds)
	}
	if words["x"]+words["2"] != 27 || words["x"] < 9 || words["2"] < 9 {
		t.Errorf("the listed values come %v times", words)
	}
	for i, p := range s.Points(27, 7) {
		if !slices.Equal(p, points[i]) {
			t.Errorf("point %d is %v the second time, %v the first", i, p, points[i])
		}
	}
}

func TestReadSpace(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "has no field",
		`{"a": {"min": 1, "max": 2}}`: `scaling is "", want linear or log`,
		`{"a": {"min": 2, "max": 1, "scaling": "log"}}`: "min 2 is not below max 1",
		`{"a": {"min": 0, "max": 1, "scaling": "log"}}`: "want more than 0",
		`{"a": {"minimum": 0}}`:                         `unknown field "minimum"`,
		`{"a": {"min": 1, "feasible_points": [1]}}`:     "a range as well",
	} {
		path := filepath.Join(t.TempDir(), "space.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSpace(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", text, err, want)
		}
	}
}

func TestRank(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	list := []Trial{
		{Trial: 1, Steps: 10, Final: 80}, {Trial: 2, Steps: 5, Final: 70}, {Trial: 3, Final: 60}, {Trial: 4, Final: 90}, {Trial: 5},
	}
	for i, s := range []float64{10, 5, inf, inf, inf} {
		list[i].Steps = results.Number(s)
	}
	list[4].Final = results.Number(nan)
	rank(list, "f1")
	var order []int
	for _, l := range list {
		order = append(order, l.Trial)
	}
	if !slices.Equal(order, []int{2, 1, 4, 3, 5}) {
		t.Errorf("the order is %v, want 2 1 4 3 5", order)
	}
}
