package train

import (
	"bytes"
	"encoding/json"
	"io"

	"harness.invalid/core/backend"
	"harness.invalid/core/durable"
)

// saveSchedule writes PHASE.schedule.json, the schedule of the pipeline in a step, if the backend tells. It is the
// same in all other steps of the phase and on all replicas.
func (p *phase) saveSchedule(step int, s *backend.Schedule) error {
	if s == nil {
		return nil
	}
	data, err := scheduleJSON(p.recipe.Name, step, s)
	if err != nil {
		return err
	}
	return durable.WriteFile(p.record.Path(p.recipe.Name+".schedule.json"), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// scheduleJSON is indented JSON with one line for each cycle.
func scheduleJSON(phase string, step int, s *backend.Schedule) ([]byte, error) {
	head, err := json.MarshalIndent(struct {
		Phase string `json:"phase"`
		Step  int    `json:"step"` // of the run
		*backend.Schedule
		Cycles any `json:"cycles,omitempty"` // hides that of the schedule
	}{Phase: phase, Step: step, Schedule: s}, "", "  ")
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(bytes.TrimSuffix(head, []byte("\n}")))
	b.WriteString(",\n  \"cycles\": [")
	for i, cycle := range s.Cycles {
		line, err := json.Marshal(cycle)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(line)
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes(), nil
}
