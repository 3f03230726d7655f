package estimate

import (
	"encoding/json"
	"io"

	"harness.invalid/core/backend"
	"harness.invalid/results"
)

// Record is a result for programs.
type Record struct {
	Backend            string              `json:"backend"`
	System             string              `json:"system"`
	Recipe             string              `json:"recipe,omitempty"`
	Phase              string              `json:"phase"`
	SequencesPerSecond float64             `json:"sequences_per_second"`
	Confidence         *results.Confidence `json:"confidence,omitempty"` // in sequences_per_second
	StepSeconds        float64             `json:"step_seconds"`
	GlobalBatch        int                 `json:"global_batch"`
	Fits               bool                `json:"fits"`
	PeakShare          float64             `json:"peak_share"`
	Breakdown          map[string]float64  `json:"breakdown"` // seconds of step_seconds
	Memory             []memoryRecord      `json:"memory"`
	OffChip            []memoryRecord      `json:"off_chip,omitempty"` // slower memory beside the devices
	Steps              int                 `json:"steps,omitempty"`
	Length             string              `json:"length,omitempty"`        // where the steps come from
	TotalSeconds       float64             `json:"total_seconds,omitempty"` // of all steps
	Error              string              `json:"error,omitempty"`
	Advice             string              `json:"advice,omitempty"`
	Flags              string              `json:"flags,omitempty"` // that make it fit
	Assumptions        []assumption        `json:"assumptions,omitempty"`
}

// assumption is a backend.Assumption.
type assumption struct {
	Setting  string `json:"setting"`
	Modelled string `json:"modelled,omitempty"`
	Run      string `json:"run,omitempty"` // where it has another value
	Reason   string `json:"reason"`
}

type memoryRecord struct {
	Device string           `json:"device"`
	Bytes  int64            `json:"bytes"` // that the device has
	Needed int64            `json:"needed_bytes"`
	Fits   bool             `json:"fits"`
	Moved  int64            `json:"moved_bytes,omitempty"` // in a step, in and out
	Parts  map[string]int64 `json:"parts"`
}

func memoryRecords(list []backend.DeviceMemory) []memoryRecord {
	records := []memoryRecord{}
	for _, d := range list {
		parts := map[string]int64{}
		for _, p := range d.Parts {
			parts[p.Name] = p.Bytes
		}
		records = append(records, memoryRecord{d.Device, d.Bytes, d.Total(), d.Total() <= d.Bytes, d.Moved, parts})
	}
	return records
}

func (e *Estimation) record(m *Result) Record {
	r := Record{
		Backend: e.Backend, System: m.System, Recipe: e.Recipe, Phase: m.Phase,
		SequencesPerSecond: m.SequencesPerSecond, StepSeconds: m.StepSeconds, GlobalBatch: m.GlobalBatch, Fits: m.Fits(),
		PeakShare: m.PeakShare, Breakdown: map[string]float64{}, Memory: memoryRecords(m.Memory), OffChip: memoryRecords(m.OffChip),
		Steps: m.Steps, Length: m.Length, TotalSeconds: m.TotalSeconds(), Advice: m.Advice, Flags: m.Flags,
	}
	for _, p := range m.Breakdown {
		r.Breakdown[p.Name] = p.Seconds
	}
	for _, a := range m.Assumptions {
		r.Assumptions = append(r.Assumptions, assumption(a))
	}
	r.Confidence = (*results.Confidence)(m.Confidence)
	if err := m.Err(); err != nil {
		r.Error = err.Error()
	}
	return r
}

// Records are the results of several phases.
type Records struct {
	Backend      string   `json:"backend"`
	System       string   `json:"system"`
	Recipe       string   `json:"recipe"`
	Fits         bool     `json:"fits"`
	TotalSeconds float64  `json:"total_seconds,omitempty"`
	Phases       []Record `json:"phases"`
}

// WriteJSON writes the only result, or all of them with their total.
func (e *Estimation) WriteJSON(w io.Writer, list []*Result) error {
	var records []Record
	fits := true
	for _, m := range list {
		r := e.record(m)
		records = append(records, r)
		fits = fits && r.Fits
	}
	if len(records) == 1 {
		return indented(w, records[0])
	}
	return indented(w, Records{e.Backend, records[0].System, e.Recipe, fits, total(list), records})
}

// total is the modelled time of all phases, or 0 when the steps of one are not known.
func total(list []*Result) (seconds float64) {
	for _, m := range list {
		if m.Steps == 0 {
			return 0
		}
		seconds += m.TotalSeconds()
	}
	return seconds
}

func indented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
