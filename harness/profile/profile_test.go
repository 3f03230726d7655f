package profile

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/machine/machinetest"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/lamb"
)

// step is BERT-Base on four IPUs, modelled.
func step(t *testing.T, schedule emulator.Schedule, accumulation int) Step {
	t.Helper()
	p := backend.Program{
		Model: bert.Defaults(), Head: bert.Head{Task: bert.Pretraining}, Precision: "fp16.16", Length: 128, MaxPredictions: 20,
		MicroBatch: 4, Accumulation: accumulation, Replicas: 2,
		Options: map[string]string{"pipeline": "0,4,4,4", "schedule": string(schedule)},
	}
	e, err := ipu.New().Estimate(t.Context(), p, backend.Machine{System: "bow-pod16", Update: machinetest.Update(t, lamb.New(), nil, p)})
	if err != nil {
		t.Fatal(err)
	}
	return Step{"phase & 1", accumulation, &e}
}

// TestLayOut: every stage does every micro-batch once, in order; a device does one thing at a time, and no cycle runs
// into the next; forward comes before the stage behind it. With the schedule interleaved, neighbours go forward in
// different halves of a cycle, each at its own time.
func TestLayOut(t *testing.T) {
	for _, schedule := range []emulator.Schedule{emulator.Grouped, emulator.Interleaved, emulator.Sequential} {
		s := step(t, schedule, 12)
		p := &s.Estimate.Pipeline
		shown, left := s.layOut(1000)
		if left.cycles != 0 {
			t.Errorf("%s: %d of %d cycles are left out", schedule, left.cycles, p.Cycles)
		}
		const little = 1e-12
		busy, done := map[int]float64{}, map[string]int{}
		slices.SortStableFunc(shown, func(a, b slice) int {
			switch {
			case a.start < b.start:
				return -1
			case a.start > b.start:
				return 1
			}
			return 0
		})
		turns := map[string]bool{}
		for _, c := range shown {
			if c.start < busy[c.device]-little {
				t.Errorf("%s: %s of %d begins at %g s, when IPU %d works until %g s",
					schedule, c.stage, c.microBatch, c.start, c.device, busy[c.device])
			}
			busy[c.device] = c.start + c.seconds
			if end := float64(c.cycle+1) * p.CycleSeconds; c.start+c.seconds > end+little {
				t.Errorf("%s: %s of %d ends behind its cycle", schedule, c.stage, c.microBatch)
			}
			if name := c.stage + " " + c.part; c.part != "recomputation" {
				if done[name] != c.microBatch {
					t.Errorf("%s: %s takes micro-batch %d after %d", schedule, name, c.microBatch, done[name])
				}
				done[name]++
				if c.part == "forward" {
					turns[c.stage] = c.start-float64(c.cycle)*p.CycleSeconds > little
				}
			}
		}
		for name, n := range done {
			if n != s.Accumulation {
				t.Errorf("%s: %s does %d micro-batches of %d", schedule, name, n, s.Accumulation)
			}
		}
		for i, st := range p.Stages[:5] {
			if later := turns[st.Name]; schedule == emulator.Interleaved && later != (i%2 == 1) {
				t.Errorf("%s goes forward in the second half of a cycle: %v", st.Name, later)
			}
		}
	}
}

// TestPictures: the pictures are XML with a box for each part, the trace is JSON, and a long step is shortened to its
// ends.
func TestPictures(t *testing.T) {
	s := step(t, emulator.Grouped, 500)
	shown, left := s.layOut(drawnCycles)
	if ends := s.Estimate.Pipeline.Cycles - left.cycles; ends != 2*(8+drawnCycles) || left.first != 8+drawnCycles {
		t.Errorf("%d cycles are shown, %d of them before the gap", ends, left.first)
	}
	for _, picture := range []struct {
		name  string
		draw  func(io.Writer) error
		boxes int
	}{{"pipeline", s.Pipeline, len(shown)}, {"memory", s.Memory, 4 * len(s.Estimate.Memory[0].Parts)}} {
		var b strings.Builder
		if err := picture.draw(&b); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(strings.NewReader(b.String()))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", picture.name, err)
			}
		}
		if n := strings.Count(b.String(), "<rect"); n < picture.boxes {
			t.Errorf("%s: %d boxes, want at least %d", picture.name, n, picture.boxes)
		}
	}
	var b strings.Builder
	if err := s.Trace(&b); err != nil {
		t.Fatal(err)
	}
	var f traceFile
	if err := json.Unmarshal([]byte(b.String()), &f); err != nil {
		t.Fatal(err)
	}
	end := 0.
	for _, e := range f.Events {
		end = max(end, e.Start+e.Duration)
	}
	if want := s.Estimate.StepSeconds * 1e6; fmt.Sprintf("%.6g", end) != fmt.Sprintf("%.6g", want) {
		t.Errorf("the trace ends after %g µs, the step after %g", end, want)
	}
}
