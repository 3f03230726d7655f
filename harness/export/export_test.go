package export_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
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

// to exports the runs of two arms and returns where.
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

// field is a field of a protocol buffer's message.
type field struct {
	number int
	value  uint64 // varint or fixed
	bytes  []byte
}

// fields takes a message apart, by the description of the encoding alone.
func fields(t *testing.T, b []byte) (all []field) {
	t.Helper()
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		b = b[n:]
		f := field{number: int(key >> 3)}
		switch key & 7 {
		case 0:
			f.value, n = binary.Uvarint(b)
		case 1:
			f.value, n = binary.LittleEndian.Uint64(b), 8
		case 5:
			f.value, n = uint64(binary.LittleEndian.Uint32(b)), 4
		case 2:
			size, m := binary.Uvarint(b)
			f.bytes, n = b[m:m+int(size)], m+int(size)
		default:
			t.Fatalf("field %d has wire type %d", f.number, key&7)
		}
		all, b = append(all, f), b[n:]
	}
	return all
}

// TestTensorBoard takes the event file apart again: frames, checksums, messages.
func TestTensorBoard(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu, gpu)
	dir := to(t, "tensorboard", records)
	files, err := filepath.Glob(filepath.Join(dir, "ipu-adamw-seed1", "*tfevents*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	b := readFile(t, files[0])
	check := func(data []byte, stored uint32) {
		t.Helper()
		c := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		if want := (c>>15 | c<<17) + 0xa282ead8; stored != want {
			t.Fatalf("checksum %08x, want %08x", stored, want)
		}
	}
	values := map[string]map[uint64]float32{}
	count := 0
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		check(b[:8], binary.LittleEndian.Uint32(b[8:]))
		message := b[12 : 12+n]
		check(message, binary.LittleEndian.Uint32(b[12+n:]))
		b = b[16+n:]
		var step uint64
		for _, f := range fields(t, message) {
			switch f.number {
			case 1:
				if at := math.Float64frombits(f.value); at < float64(seriestest.Begin.Unix()) || at > float64(seriestest.Begin.Unix())+60 {
					t.Errorf("wall time %f", at)
				}
			case 2:
				step = f.value
			case 3:
				if count != 0 || string(f.bytes) != "brain.Event:2" {
					t.Errorf("file version %q in record %d", f.bytes, count)
				}
			case 5:
				for _, v := range fields(t, f.bytes) {
					var tag string
					for _, part := range fields(t, v.bytes) {
						if part.number == 1 {
							tag = string(part.bytes)
						} else if part.number == 2 {
							if values[tag] == nil {
								values[tag] = map[uint64]float32{}
							}
							values[tag][step] = math.Float32frombits(uint32(part.value))
						}
					}
				}
			}
		}
		count++
	}
	if want := 1 + 70 + 5; count != want {
		t.Errorf("%d records, want %d", count, want)
	}
	r := records[0]
	if len(values["trained/loss"]) != 70 || values["trained/loss"][70] != float32(r.Steps[69].Values["loss"]) || values["evaluated/f1"][70] != float32(r.Evaluations[4].Values["f1"]) {
		t.Errorf("values: %d losses, the last %g, F1 %g", len(values["trained/loss"]), values["trained/loss"][70], values["evaluated/f1"][70])
	}
	if v := values["trained/gradient_norm"][35]; !math.IsNaN(float64(v)) {
		t.Errorf("the gradient norm of a skipped step is %g", v)
	}
}

// TestFirstBytes: every event file that TensorFlow writes begins with these bytes, since its first record has 24 of them: the length and its masked
// checksum.
func TestFirstBytes(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu)
	files, err := filepath.Glob(filepath.Join(to(t, "tensorboard", records), "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if got, want := readFile(t, files[0])[:12], []byte{0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22}; !bytes.Equal(got, want) {
		t.Errorf("the file begins with % x, want % x", got, want)
	}
}

// mlEvent is a line of an MLPerf log.
type mlEvent struct {
	Namespace *string
	TimeMS    int64  `json:"time_ms"`
	EventType string `json:"event_type"`
	Key       string
	Value     any
	Metadata  map[string]any
}

// TestMLLog holds the lines to the rules of the compliance checker: the keys that must come once, at least once, and in which order.
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
			"submission_benchmark", "submission_division", "submission_org", "submission_platform", "submission_status", "cache_clear", "init_start", "init_stop", "run_start", "run_stop", "seed",
			"global_batch_size", "gradient_accumulation_steps", "opt_base_learning_rate", "opt_learning_rate_training_steps", "opt_learning_rate_warmup_steps", "num_warmup_steps", "start_warmup_step",
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
		order := []string{"cache_clear", "init_start", "init_stop", "run_start", "block_start", "block_stop", "eval_start", "eval_accuracy", "eval_stop", "run_stop"}
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
		if e := events[place["submission_benchmark"][0]]; phase == "phase1" && e.Value != "bert" {
			t.Errorf("benchmark %v", e.Value)
		}
	}
}

// TestMLLogAborted: a run that did not reach its target is no success.
func TestMLLogAborted(t *testing.T) {
	weak := ipu
	weak.F1 = 20
	dir := to(t, "mllog", seriestest.Write(t, t.TempDir(), 1, weak))
	if text := readFile(t, filepath.Join(dir, "ipu-adamw-seed1", "squad.txt")); !bytes.Contains(text, []byte(`"status":"aborted"`)) {
		t.Errorf("no run is aborted:\n%s", text)
	}
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
			found = r.Value == records[2].Evaluations[4].Values["f1"] && r.Phase == "squad" && r.Step == 40 && r.Samples == 560 && r.Seed == 2 && r.Backend == "ipu"
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
		if r.GetConfig("goos") != "linux" || r.GetConfig("cpu") != "Abacus 3000" || !strings.HasPrefix(string(r.Name), "Train/recipe=invented/phase=") || !strings.HasSuffix(string(r.Name), "/backend=ipu:fp16.16/optimizer=adamw") {
			t.Errorf("%s, %v", r.Name, r.Config)
		}
		for _, v := range r.Values {
			units[v.Unit] = append(units[v.Unit], v.Value)
		}
	}
	if lines != 4 || len(units["f1"]) != 2 || !slices.Equal(units["sec/op"], []float64{0.2, 0.2, 0.2, 0.2}) || !slices.Equal(units["sequences/s"], []float64{40, 40, 40, 40}) ||
		!slices.Equal(units["steps-to-target"], []float64{30, 30}) || !slices.Equal(units["measured-sec-to-target"], []float64{6, 6}) {
		t.Errorf("%d lines with %v", lines, units)
	}
}

func TestMLflowStore(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, ipu, gpu)
	dir := to(t, "mlflow", records)
	again, err := export.Named("mlflow")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.To(t.Context(), dir, records); err != nil { // takes its own place
		t.Fatal(err)
	}
	experiments, _ := filepath.Glob(filepath.Join(dir, "*", "meta.yaml"))
	runs, _ := filepath.Glob(filepath.Join(dir, "*", "*", "meta.yaml"))
	if len(experiments) != 1 || len(runs) != 2 {
		t.Fatalf("%d experiments and %d runs", len(experiments), len(runs))
	}
	var experiment, run map[string]any
	if err := yaml.Unmarshal(readFile(t, experiments[0]), &experiment); err != nil {
		t.Fatal(err)
	}
	if experiment["name"] != "invented" || experiment["experiment_id"] != filepath.Base(filepath.Dir(experiments[0])) || experiment["lifecycle_stage"] != "active" {
		t.Errorf("experiment %v", experiment)
	}
	names := map[any]bool{}
	for _, path := range runs {
		if err := yaml.Unmarshal(readFile(t, path), &run); err != nil {
			t.Fatal(err)
		}
		names[run["run_name"]] = true
		folder := filepath.Dir(path)
		if run["run_id"] != filepath.Base(folder) || len(filepath.Base(folder)) != 32 || run["status"] != uint64(3) || run["experiment_id"] != experiment["experiment_id"] {
			t.Errorf("run %v", run)
		}
		if got := string(readFile(t, filepath.Join(folder, "params", "recipe.phases.squad.steps"))); got != "40" {
			t.Errorf("parameter %q", got)
		}
		lines := strings.Split(strings.TrimSpace(string(readFile(t, filepath.Join(folder, "metrics", "evaluated", "f1")))), "\n")
		if words := strings.Fields(lines[len(lines)-1]); len(lines) != 4 || len(words) != 3 || words[2] != "70" || len(words[0]) != 13 {
			t.Errorf("metric %q", lines)
		}
	}
	if !names["ipu-adamw-seed1"] || !names["gpu-ref-fp16-adamw-seed1"] {
		t.Errorf("runs are named %v", names)
	}
}

// tracker is a tracking server that holds calls to the documented limits and keeps what it is told.
type tracker struct {
	t       *testing.T
	mu      sync.Mutex
	params  map[string]string
	metrics int
	status  string
	calls   int
}

func (s *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	text, err := io.ReadAll(r.Body)
	if err != nil || len(text) > 1<<20 {
		s.t.Errorf("%s: %d bytes, want at most 1 MiB: %v", r.URL.Path, len(text), err)
	}
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var body struct {
		RunID   string              `json:"run_id"`
		Status  string              `json:"status"`
		Name    string              `json:"name"`
		Params  []map[string]string `json:"params"`
		Metrics []struct {
			Key             string
			Value           any
			Timestamp, Step int64
		}
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			s.t.Errorf("%s: %v", r.URL.Path, err)
		}
	}
	switch strings.TrimPrefix(r.URL.Path, "/base/api/2.0/mlflow/") {
	case "experiments/get-by-name":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "No Experiment"}`)
	case "experiments/create":
		fmt.Fprintf(w, `{"experiment_id": "7"}`)
	case "runs/create":
		fmt.Fprint(w, `{"run": {"info": {"run_id": "abc"}}}`)
	case "runs/log-batch":
		if body.RunID != "abc" || len(body.Metrics) > 1000 || len(body.Params) > 100 {
			s.t.Errorf("run %q, %d metrics, %d parameters", body.RunID, len(body.Metrics), len(body.Params))
		}
		for _, p := range body.Params {
			s.params[p["key"]] = p["value"]
		}
		s.metrics += len(body.Metrics)
		fmt.Fprint(w, `{}`)
	case "runs/update":
		s.status = body.Status
		fmt.Fprint(w, `{}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestMLflowServer(t *testing.T) {
	records := seriestest.Write(t, t.TempDir(), 1, gpu)
	s := &tracker{t: t, params: map[string]string{}}
	server := httptest.NewServer(s)
	defer server.Close()
	f, err := export.Named("mlflow")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.To(t.Context(), server.URL+"/base/", records); err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv("MLFLOW_TRACKING_TOKEN", "secret")
	if err := f.To(t.Context(), server.URL+"/base/", records); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, p := range append(slices.Clone(records[0].Steps), records[0].Evaluations...) {
		want += len(p.Values)
	}
	if s.metrics != want || s.params["recipe.phases.squad.steps"] != "40" || s.params["backend"] != "gpu-ref:fp16" || s.status != "FINISHED" {
		t.Errorf("the server has %d metrics, want %d, %d parameters, status %q", s.metrics, want, len(s.params), s.status)
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
	if err := f.To(t.Context(), t.TempDir(), append(records, records...)); err == nil || !strings.Contains(err.Error(), "are both named ipu-adamw-seed1") {
		t.Errorf("two runs of one name: %v", err)
	}
	if err := f.To(t.Context(), filepath.Join(records[0].Dir, "run.json"), records); err == nil || !strings.Contains(err.Error(), "want a folder") {
		t.Errorf("a file for a folder: %v", err)
	}
	if err := f.Write(io.Discard, records); err == nil {
		t.Error("a folder is written to a stream")
	}
}
