package host

import (
	"testing"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// TestLimit: the time of a call follows from that of those before it for as much work, between the floor and the ceiling.
func TestLimit(t *testing.T) {
	timeouts := Timeouts{Step: 10 * time.Minute, Floor: 30 * time.Second}
	const work = 1e9
	most := ceiling(timeouts.Step, 0, work)
	for _, c := range []struct {
		took []time.Duration
		want time.Duration
	}{
		{nil, most},
		{[]time.Duration{1, 1}, most}, // compiled, perhaps
		{[]time.Duration{time.Second, time.Second, time.Second}, timeouts.Floor},
		{[]time.Duration{time.Second, 5 * time.Second, time.Second}, 100 * time.Second},
		{[]time.Duration{time.Minute, time.Minute, time.Minute}, most},
	} {
		var p paces
		for _, took := range c.took {
			p.add("step", took, work)
		}
		if got := p.limit("step", timeouts, 0, work); got != c.want {
			t.Errorf("after %v: %v, want %v", c.took, got, c.want)
		}
		if got := p.limit("commit", timeouts, 0, work); got != most {
			t.Errorf("another kind of call: %v, want %v", got, most)
		}
	}
	var p paces
	p.add("step", time.Minute, work)
	for range hangWindow {
		p.add("step", 2*time.Second, work)
	}
	if got := p.limit("step", timeouts, 0, work); got != 40*time.Second {
		t.Errorf("long after a slow step: %v, want 40s", got)
	}
	if got := p.limit("step", timeouts, 0, 3*work); got != 2*time.Minute {
		t.Errorf("three times as much work: %v, want 2m0s", got)
	}
}

// TestCeiling: a step of BERT-Large that takes an hour on a slow machine is waited for, and so is a compiler that takes half
// an hour; a plugin that hangs in the first step of a small model is noticed after minutes.
func TestCeiling(t *testing.T) {
	layout := func(size string) *tensor.Layout {
		c, err := bert.Defaults().Size(size)
		if err != nil {
			t.Fatal(err)
		}
		l, err := bert.Parameters(c, bert.Head{Task: bert.Pretraining})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	tiny, large := layout("tiny"), layout("large")
	step := func(l *tensor.Layout, tokens int) time.Duration {
		return ceiling(10*time.Minute, l.Len(), stepOperations*float64(l.Len())*float64(tokens))
	}
	for _, c := range []struct {
		what       string
		got        time.Duration
		least, top time.Duration
	}{
		{"opening BERT-Tiny", ceiling(10*time.Minute, tiny.Len(), 0), 10 * time.Minute, 11 * time.Minute},
		{"opening BERT-Large", ceiling(10*time.Minute, large.Len(), 0), 40 * time.Minute, 50 * time.Minute},
		{"a step of BERT-Tiny, 32 x 64", step(tiny, 32*64), 10 * time.Minute, 13 * time.Minute},
		{"a step of BERT-Large, 256 x 128", step(large, 256*128), 10 * time.Hour, 24 * time.Hour},
		{"an update of BERT-Tiny", ceiling(10*time.Minute, tiny.Len(), updateWork(tiny)), 10 * time.Minute, 11 * time.Minute},
		{"an update of BERT-Large", ceiling(10*time.Minute, large.Len(), updateWork(large)), 2 * time.Hour, 4 * time.Hour},
		{"anything under a debugger", ceiling(forever, large.Len(), 1e30), forever, forever},
	} {
		if c.got < c.least || c.got > c.top {
			t.Errorf("%s: %v, want %v to %v", c.what, c.got, c.least, c.top)
		}
	}
}

// TestAttachedWaits: however quick its calls were, a plugin under a debugger may stop as long as it likes.
func TestAttachedWaits(t *testing.T) {
	var p paces
	for range hangMeasured {
		p.add("step", time.Millisecond, 1)
	}
	if got := p.limit("step", debugged, 1, 1); got != forever {
		t.Errorf("%v, want %v", got, forever)
	}
}
