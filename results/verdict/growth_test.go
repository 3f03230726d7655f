package verdict

import "testing"

// TestVisits: how often runs are looked at one by one grows with their number and no faster.
func TestVisits(t *testing.T) {
	visits := func(pairs int) int {
		f1 := make([]float64, pairs)
		c, err := Compare(runsWithF1(quick(t), f1, f1))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Runs {
			c.InNoise(s.Arm, s.Seed)
			if c.Place(s.Arm, s.Seed) < 0 {
				t.Fatalf("%s seed %d is nowhere", s.Arm, s.Seed)
			}
		}
		return c.visits
	}
	if few, many := visits(20), visits(200); few == 0 || many > 10*few {
		t.Errorf("%d visits for 20 pairs and %d for 200", few, many)
	}
}
