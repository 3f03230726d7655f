package export_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/perf/benchfmt"

	"harness.invalid/harness/export"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
)

var (
	ipu = seriestest.Arm{Backend: "ipu", Precision: "fp16.16", F1: 70, StepSeconds: 0.2, Skip: 35}
	gpu = seriestest.Arm{Backend: "gpu-ref:fp16", Precision: "fp16", F1: 82, StepSeconds: 0.1, NaN: 60}
)

// to exports the runs of two arms and returns the path.
func to(t *testing.T, format string, records []*series.Record) string {
	t.Helper()
	f, err := export.Named(format)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out")
	if err := f.To(t.Context(), path, records); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDLLogger(t *testing.T) {
	dir := to(t, "dllogger", seriestest.Write(t, t.TempDir(), 1, ipu, gpu))
	steps := map[string]int{}
	for line := range strings.Lines(string(readFile(t, filepath.Join(dir, "gpu-ref-fp16-adamw-seed1.json")))) {
		text, ok := strings.CutPrefix(line, "DLLL ")
		if !ok {
			t.Fatalf("line %q", line)
		}
		var l struct {
			Timestamp, Elapsedtime, Datetime, Type, Metric string
			Step                                           any
			Data                                           map[string]any
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if _, err := strconv.ParseFloat(l.Timestamp, 64); err != nil || len(l.Datetime) != len("2020-01-01 00:00:00.000000") {
			t.Errorf("line %s", text)
		}
		switch s := l.Step.(type) {
		case string:
			steps[s]++
			if l.Data["backend"] != "gpu-ref:fp16" || l.Data["seed"] != 1.0 {
				t.Errorf("parameters %v", l.Data)
			}
		case []any:
			steps[fmt.Sprint(len(s))]++
			if len(s) == 0 && l.Data["f1"] == nil {
				t.Errorf("summary %v", l.Data)
			}
			if len(s) == 2 && s[0] == 1.0 && s[1] == 40.0 && l.Data["train_loss"] != nil && l.Data["train_loss"] != "NaN" {
				t.Errorf("the last step is %v, want a loss of NaN", l.Data)
			}
		default:
			steps[l.Type]++
		}
	}
	if steps["PARAMETER"] != 1 || steps["2"] != 75 || steps["0"] != 1 || steps["METADATA"] < 10 {
		t.Errorf("lines %v, want 1 with parameters, 75 of steps and evaluations, 1 summary", steps)
	}
}

func TestParquet(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 2, ipu, gpu)
	path := to(t, "parquet", records)
	rows, err := parquet.ReadFile[export.Row](path)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, r := range records {
		for _, p := range append(slices.Clone(r.Steps), r.Evaluations...) {
			want += len(p.Values)
		}
	}
	if len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	found, lost := false, false
	for _, r := range rows {
		if r.Run == records[2].Dir && r.Kind == "evaluated" && r.Name == "f1" && r.TotalStep == 70 {
			found = r.Value == records[2].Evaluations[4].Values["f1"] && r.Phase == "squad" && r.Step == 40 && r.Samples == 560 &&
				r.Seed == 2 && r.Backend == "ipu"
		}
		lost = lost || math.IsNaN(r.Value)
	}
	if !found || !lost {
		t.Errorf("the last F1 of a run was found: %v; a NaN was kept: %v", found, lost)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > int64(len(rows))*12 {
		t.Errorf("%d rows take %d bytes, want at most 12 each", len(rows), info.Size())
	}
}

func TestGoBenchmarks(t *testing.T) {
	f, err := export.Named("gobench")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := f.Write(&out, seriestest.Write(t, t.TempDir(), 2, ipu)); err != nil {
		t.Fatal(err)
	}
	// As benchstat reads it.
	units := map[string][]float64{}
	lines := 0
	for in := benchfmt.NewReader(&out, "out"); in.Scan(); {
		r, ok := in.Result().(*benchfmt.Result)
		if !ok {
			t.Errorf("line %d: %v", lines, in.Result())
			continue
		}
		lines++
		if r.GetConfig("goos") != "linux" || r.GetConfig("cpu") != "Abacus 3000" ||
			!strings.HasPrefix(string(r.Name), "Train/recipe=invented/phase=") ||
			!strings.HasSuffix(string(r.Name), "/backend=ipu:fp16.16/optimizer=adamw") {
			t.Errorf("%s, %v", r.Name, r.Config)
		}
		for _, v := range r.Values {
			units[v.Unit] = append(units[v.Unit], v.Value)
		}
	}
	if lines != 4 || len(units["f1"]) != 2 || !slices.Equal(units["sec/op"], []float64{0.2, 0.2, 0.2, 0.2}) ||
		!slices.Equal(units["sequences/s"], []float64{40, 40, 40, 40}) ||
		!slices.Equal(units["steps-to-target"], []float64{30, 30}) || !slices.Equal(units["measured-sec-to-target"], []float64{6, 6}) {
		t.Errorf("%d lines with %v", lines, units)
	}
}

func TestErrors(t *testing.T) {
	if _, err := export.Named("tensorbord"); err == nil || !strings.Contains(err.Error(), "did you mean tensorboard?") {
		t.Errorf("error is %v", err)
	}
	records := seriestest.Write(t, t.TempDir(), 1, ipu)
	f, err := export.Named("tensorboard")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.To(t.Context(), t.TempDir(), append(records, records...)); err == nil ||
		!strings.Contains(err.Error(), "are both named ipu-adamw-seed1") {
		t.Errorf("two runs of one name: %v", err)
	}
	if err := f.To(t.Context(), filepath.Join(records[0].Dir, "run.json"), records); err == nil ||
		!strings.Contains(err.Error(), "want a folder") {
		t.Errorf("a file for a folder: %v", err)
	}
	if err := f.Write(io.Discard, records); err == nil {
		t.Error("a folder is written to a stream")
	}
}
