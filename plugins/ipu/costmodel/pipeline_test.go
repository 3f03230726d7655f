package costmodel

import (
	"math"
	"strings"
	"testing"
)

// TestSchedule: G + P - 1 cycles with P = 9 visits of five stages, the bubble is the share (P-1)/(G+P-1), and the
// parts of a step are its whole.
func TestSchedule(t *testing.T) {
	p := large(t)
	for _, g := range []int{9, 512, 2048} {
		p.Accumulation = g
		e := modelled(t, p, "bow-pod16")
		if e.Pipeline.Cycles != g+8 {
			t.Errorf("accumulation %d: %d cycles, want %d", g, e.Pipeline.Cycles, g+8)
		}
		sums(t, &e)
		bubble := 0.
		for _, b := range e.Breakdown {
			if b.Name == "bubble" {
				bubble = b.Seconds
			}
			if b.Seconds < 0 {
				t.Errorf("%s takes %g s", b.Name, b.Seconds)
			}
		}
		inCycles := e.StepSeconds - seconds(e.Pipeline.Update)
		if want := 8 / float64(g+8); math.Abs(bubble/inCycles/want-1) > 1e-9 {
			t.Errorf("accumulation %d: bubble %g of the cycles, want %g", g, bubble/inCycles, want)
		}
	}
	p.Accumulation, p.Replicas = 9, 5
	if _, err := estimated(t, p, "bow-pod16"); err == nil || !strings.Contains(err.Error(), "want at most 4 replicas") {
		t.Errorf("5 replicas: %v", err)
	}
}

// TestInterleaved: G + F - 1 cycles of two turns each, in which neighbours work in opposite directions. Fewer
// micro-batches are kept than with the schedule grouped, and a cycle is longer.
func TestInterleaved(t *testing.T) {
	p := large(t)
	grouped, e := modelled(t, p, "bow-pod16"), modelled(t, with(p, "schedule", "interleaved"), "bow-pod16")
	if want := p.Accumulation + 5 - 1; e.Pipeline.Cycles != want || e.Pipeline.CycleSeconds <= grouped.Pipeline.CycleSeconds {
		t.Errorf("%d cycles of %g s, want %d and more than %g s",
			e.Pipeline.Cycles, e.Pipeline.CycleSeconds, want, grouped.Pipeline.CycleSeconds)
	}
	for d := range e.Memory {
		if e.Memory[d].Total() >= grouped.Memory[d].Total() {
			t.Errorf("IPU %d needs %d bytes, grouped %d", d, e.Memory[d].Total(), grouped.Memory[d].Total())
		}
	}
	for i, st := range e.Pipeline.Stages[:5] {
		if st.Stash != 5-i || st.Offset != i/2 {
			t.Errorf("stage %d keeps %d micro-batches from cycle %d on, want %d from %d on", i, st.Stash, st.Offset, 5-i, i/2)
		}
	}
}
