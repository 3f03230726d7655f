package train

import (
	"encoding/json"
	"reflect"
	"testing"

	"harness.invalid/core/backend"
)

func TestScheduleJSON(t *testing.T) {
	s := backend.Schedule{
		Name: "grouped", Recompute: "none", Fill: 2, Drain: 2, Cycles: [][]int{{0, -1}, {1, 0}},
		Stages: []backend.ScheduledStage{
			{Device: 0, Forward: true, Units: []string{"embeddings"}, Stash: 3},
			{Device: 1, Forward: true, Backward: true, Units: []string{"heads"}, Stash: 1},
		},
	}
	data, err := scheduleJSON("phase1", 7, &s)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Phase string
		Step  int
		backend.Schedule
	}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if read.Phase != "phase1" || read.Step != 7 || !reflect.DeepEqual(read.Schedule, s) {
		t.Errorf("%+v comes back as %+v", s, read)
	}
}
