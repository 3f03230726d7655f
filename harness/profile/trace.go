package profile

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is an event of Chrome's trace format. Times are microseconds. Source: Google, "Trace Event Format".
type event struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Kind     string         `json:"ph"` // X: a slice; M: a name
	Start    float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

type traceFile struct {
	Events   []event        `json:"traceEvents"`
	Unit     string         `json:"displayTimeUnit"`
	Metadata map[string]any `json:"metadata"`
}

// tracedCycles of a step are in a trace at each end, besides those of fill and drain.
const tracedCycles = 8

// Trace writes the step as ui.perfetto.dev and chrome://tracing show it: a thread for each device, and one for the
// update.
func (s *Step) Trace(w io.Writer) error {
	m := s.Estimate
	p := &m.Pipeline
	f := traceFile{Unit: "ms", Metadata: map[string]any{
		"modelled": true, "system": m.System, "phase": s.Phase,
		"step_seconds": m.StepSeconds, "cycles": p.Cycles, "cycle_seconds": p.CycleSeconds,
	}}
	name := func(thread int, of, text string) {
		f.Events = append(f.Events, event{Name: of, Kind: "M", Thread: thread, Args: map[string]any{"name": text}})
	}
	did := func(thread int, text, category string, start, seconds float64, args map[string]any) {
		f.Events = append(f.Events, event{
			Name: text, Category: category, Kind: "X", Start: start * 1e6, Duration: seconds * 1e6, Thread: thread, Args: args,
		})
	}
	name(0, "process_name", fmt.Sprintf("%s on %s, one replica (modelled)", s.Phase, m.System))
	for d, memory := range m.Memory {
		name(d, "thread_name", memory.Device)
	}
	update := len(m.Memory)
	name(update, "thread_name", "update")
	shown, left := s.layOut(tracedCycles)
	for _, c := range shown {
		did(c.device, fmt.Sprintf("%s of %d", c.part, c.microBatch), c.part, c.start, c.seconds,
			map[string]any{"stage": c.stage, "micro_batch": c.microBatch, "cycle": c.cycle})
	}
	if left.cycles > 0 {
		for d := range m.Memory {
			did(d, fmt.Sprintf("%d cycles like those before", left.cycles), "elided", left.start, left.seconds, nil)
		}
	}
	end := float64(p.Cycles) * p.CycleSeconds
	for _, u := range p.Update {
		did(update, strings.ReplaceAll(u.Name, "_", " "), u.Name, end, u.Seconds, nil)
		end += u.Seconds
	}
	return json.NewEncoder(w).Encode(f)
}
