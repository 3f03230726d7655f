package results

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func line(points ...float64) []Point {
	var c []Point
	for i := 0; i < len(points); i += 2 {
		c = append(c, Point{Step: int(points[i]), Seconds: points[i] / 10, Value: points[i+1]})
	}
	return c
}

func TestFirstReach(t *testing.T) {
	for _, c := range []struct {
		name   string
		curve  []Point
		value  float64
		higher bool
		want   float64 // step; -1: not reached
	}{
		{"between", line(100, 70, 200, 90), 80, true, 150},
		{"falling", line(100, 3, 200, 2, 300, 1), 1.5, false, 250},
		{"at a point", line(100, 70, 200, 80), 80, true, 200},
		{"at once", line(100, 85, 200, 90), 80, true, 100},
		{"never", line(100, 70, 200, 79), 80, true, -1},
		{"back again", line(100, 70, 200, 90, 300, 60, 400, 95), 80, true, 150},
		{"after NaN", line(100, math.NaN(), 200, 90), 80, true, 200},
		{"no points", nil, 80, true, -1},
	} {
		at, ok := FirstReach(c.curve, c.value, c.higher)
		if ok != (c.want >= 0) || ok && (float64(at.Step) != c.want || math.Abs(float64(at.Seconds)-c.want/10) > 1e-12) {
			t.Errorf("%s: %+v, %v, want step %g", c.name, at, ok, c.want)
		}
	}
}

func TestThin(t *testing.T) {
	got := Thin(line(1, 2, 2, 4, 3, 6, 4, 8, 5, 10), 2)
	if diff := cmp.Diff([]Point{{3, 0.3, 4}, {5, 0.5, 9}}, got,
		cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })); diff != "" {
		t.Error(diff)
	}
}
