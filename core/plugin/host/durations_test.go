package host

import (
	"testing"
	"time"
)

// TestLimit: the time of a call follows from those before it, between the floor and the ceiling.
func TestLimit(t *testing.T) {
	timeouts := Timeouts{Step: 10 * time.Minute, Floor: 30 * time.Second}
	for _, c := range []struct {
		took []time.Duration
		want time.Duration
	}{
		{nil, timeouts.Step},
		{[]time.Duration{1, 1}, timeouts.Step}, // compiled, perhaps
		{[]time.Duration{time.Second, time.Second, time.Second}, timeouts.Floor},
		{[]time.Duration{time.Second, 5 * time.Second, time.Second}, 100 * time.Second},
		{[]time.Duration{time.Minute, time.Minute, time.Minute}, timeouts.Step},
	} {
		var d durations
		for _, took := range c.took {
			d.add("step", took)
		}
		if got := d.limit("step", timeouts); got != c.want {
			t.Errorf("after %v: %v, want %v", c.took, got, c.want)
		}
		if got := d.limit("commit", timeouts); got != timeouts.Step {
			t.Errorf("another kind of call: %v, want %v", got, timeouts.Step)
		}
	}
	var d durations
	d.add("step", time.Minute)
	for range hangWindow {
		d.add("step", time.Second)
	}
	if got := d.limit("step", timeouts); got != timeouts.Floor {
		t.Errorf("long after a slow step: %v, want %v", got, timeouts.Floor)
	}
}
