// Package profile shows a modelled step: in come a program's estimate, out go a trace for Perfetto, and pictures of
// the pipeline's cycles and of the memory of each device. All of it is modelled.
package profile

import (
	"cmp"
	"slices"

	"harness.invalid/core/backend"
)

// Step is the modelled step of a phase.
type Step struct {
	Phase        string
	Accumulation int
	Estimate     *backend.Estimate
}

// slice is what a device does for a while. Times are seconds from the beginning of the step.
type slice struct {
	device         int
	part           string // forward, recomputation, backward ...
	stage          string
	microBatch     int
	cycle          int
	start, seconds float64
}

// gap is a row of cycles like those before it, which is not shown.
type gap struct {
	first, cycles  int
	start, seconds float64
}

// layOut lays the stages of one replica out over time. Of a long step it shows the cycles of fill and drain and so
// many more at each end.
func (s *Step) layOut(more int) (shown []slice, left gap) {
	p := &s.Estimate.Pipeline
	devices := len(s.Estimate.Memory)
	ends := more
	for _, st := range p.Stages {
		if !p.Sequential {
			ends = max(ends, st.Offset+more)
		}
	}
	order := slices.Clone(p.Stages)
	slices.SortStableFunc(order, func(a, b backend.Stage) int { return cmp.Compare(a.Start, b.Start) })
	for c := 0; c < p.Cycles; c++ {
		start := float64(c) * p.CycleSeconds
		if n := p.Cycles - 2*ends; c == ends && n > 1 {
			left = gap{c, n, start, float64(n) * p.CycleSeconds}
			c += n - 1
			continue
		}
		at := make([]float64, devices) // each device works on its stages in turn
		for i := range at {
			at[i] = start
		}
		for _, st := range order {
			micro := c - st.Offset
			if p.Sequential {
				micro = c
			}
			if micro < 0 || micro >= s.Accumulation || st.Device >= devices {
				continue
			}
			at[st.Device] = max(at[st.Device], start+st.Start)
			for _, part := range st.Parts {
				shown = append(shown, slice{st.Device, part.Name, st.Name, micro, c, at[st.Device], part.Seconds})
				at[st.Device] += part.Seconds
			}
			if p.Sequential {
				for i := range at {
					at[i] = at[st.Device] // the next stage waits for this one
				}
			}
		}
	}
	return shown, left
}
