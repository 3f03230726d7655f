package series_test

import (
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/harness/hint"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
)

// TestOpen: the runs of the baseline come first, and each run once, however often its folder is named.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	arms := []seriestest.Arm{
		{Backend: "ipu", Precision: "fp16.16", F1: 80, StepSeconds: 0.01}, {Backend: "gpu-ref", Precision: "fp32", F1: 81, StepSeconds: 0.01},
	}
	seriestest.Write(t, dir, 2, arms...)
	one := filepath.Join(dir, seriestest.Name(arms[0], 1))
	for _, baseline := range []string{"gpu-ref", "ipu"} {
		records, err := series.Open([]string{one, dir}, baseline)
		if err != nil || len(records) != 4 || records[0].Backend != baseline || records[1].Backend != baseline {
			t.Errorf("with baseline %s: %d records, %v", baseline, len(records), err)
		}
		if runs := series.Runs(records); len(runs) != 4 || runs[3] != records[3].Run {
			t.Error("the runs are not those of the records")
		}
	}
	if _, err := series.Open([]string{dir}, "ipuu"); err == nil || !strings.Contains(err.Error(), "did you mean ipu?") {
		t.Errorf("an arm that is not there: %v", err)
	}
	if _, err := series.Open([]string{t.TempDir()}, ""); err == nil || hint.Of(err) == "" {
		t.Errorf("a folder without runs: %v", err)
	}
	if _, err := series.Open([]string{filepath.Join(dir, "none")}, ""); err == nil || !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("no folder: %v", err)
	}
}
