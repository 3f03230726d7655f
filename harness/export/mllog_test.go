package export_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/harness/series/seriestest"
)

// mlEvent is a line of an MLPerf log.
type mlEvent struct {
	Namespace *string
	TimeMS    int64  `json:"time_ms"`
	EventType string `json:"event_type"`
	Key       string
	Value     any
	Metadata  map[string]any
}

// TestMLLog checks the lines by the rules of the compliance checker: which keys must come once, which at least
// once, and in which order.
func TestMLLog(t *testing.T) {
	dir := to(t, "mllog", seriestest.Write(t, t.TempDir(), 1, ipu))
	for phase, accuracies := range map[string]int{"phase1": 1, "squad": 4} {
		var events []mlEvent
		place := map[string][]int{}
		for line := range strings.Lines(string(readFile(t, filepath.Join(dir, "ipu-adamw-seed1", phase+".txt")))) {
			text, ok := strings.CutPrefix(line, ":::MLLOG ")
			if !ok {
				t.Fatalf("%s: line %q", phase, line)
			}
			var e mlEvent
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatal(err)
			}
			if e.Namespace == nil || e.TimeMS < seriestest.Begin.UnixMilli() || e.Metadata["file"] == "" || e.Metadata["lineno"] == nil {
				t.Errorf("%s: event %+v", phase, e)
			}
			if n := len(events); n > 0 && events[n-1].TimeMS > e.TimeMS {
				t.Errorf("%s: %s comes before its time", phase, e.Key)
			}
			place[e.Key] = append(place[e.Key], len(events))
			events = append(events, e)
		}
		for _, key := range []string{
			"submission_division", "submission_org", "submission_platform", "submission_status", "cache_clear",
			"init_start", "init_stop", "run_start", "run_stop", "seed",
			"global_batch_size", "gradient_accumulation_steps", "opt_base_learning_rate", "opt_learning_rate_training_steps",
			"opt_learning_rate_warmup_steps", "num_warmup_steps", "start_warmup_step",
			"train_samples", "eval_samples",
		} {
			if len(place[key]) != 1 {
				t.Errorf("%s: %s comes %d times, want exactly once", phase, key, len(place[key]))
			}
		}
		for _, key := range []string{"block_start", "block_stop", "eval_start", "eval_stop", "eval_accuracy"} {
			if len(place[key]) != accuracies {
				t.Errorf("%s: %s comes %d times, want %d", phase, key, len(place[key]), accuracies)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
		order := []string{"cache_clear", "init_start", "init_stop", "run_start", "block_start", "block_stop", "eval_start",
			"eval_accuracy", "eval_stop", "run_stop"}
		if !slices.IsSortedFunc(order, func(a, b string) int { return place[a][0] - place[b][0] }) {
			t.Errorf("%s: the keys come in the order %v", phase, place)
		}
		for _, i := range place["eval_accuracy"] {
			if v, ok := events[i].Value.(float64); !ok || v < 0 || v > 1 || events[i].Metadata["samples_count"] == nil {
				t.Errorf("%s: eval_accuracy %+v, want a share with samples_count", phase, events[i])
			}
		}
		if e := events[place["run_stop"][0]]; e.EventType != "INTERVAL_END" || e.Metadata["status"] != "success" {
			t.Errorf("%s: %+v", phase, e)
		}
		// MLPerf has the benchmark bert, and its checker crashes on one that it does not know.
		at := place["submission_benchmark"]
		if known := phase == "phase1"; known && (len(at) != 1 || events[at[0]].Value != "bert") || !known && len(at) > 0 {
			t.Errorf("%s: the benchmark comes at %v", phase, at)
		}
	}
}

// TestMLLogAborted: a run that did not reach its target is not a success.
func TestMLLogAborted(t *testing.T) {
	weak := ipu
	weak.F1 = 20
	dir := to(t, "mllog", seriestest.Write(t, t.TempDir(), 1, weak))
	if text := readFile(t, filepath.Join(dir, "ipu-adamw-seed1", "squad.txt")); !bytes.Contains(text, []byte(`"status":"aborted"`)) {
		t.Errorf("no run is aborted:\n%s", text)
	}
}
