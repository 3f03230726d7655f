package export_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"harness.invalid/harness/export"
	"harness.invalid/harness/series/seriestest"
)

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
	if experiment["name"] != "invented" || experiment["experiment_id"] != filepath.Base(filepath.Dir(experiments[0])) ||
		experiment["lifecycle_stage"] != "active" {
		t.Errorf("experiment %v", experiment)
	}
	names := map[any]bool{}
	for _, path := range runs {
		if err := yaml.Unmarshal(readFile(t, path), &run); err != nil {
			t.Fatal(err)
		}
		names[run["run_name"]] = true
		folder := filepath.Dir(path)
		if run["run_id"] != filepath.Base(folder) || len(filepath.Base(folder)) != 32 || run["status"] != uint64(3) ||
			run["experiment_id"] != experiment["experiment_id"] {
			t.Errorf("run %v", run)
		}
		if got := string(readFile(t, filepath.Join(folder, "params", "recipe.phases.squad.name"))); got != "squad" {
			t.Errorf("the phase's name is %s, want no quotes", got)
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

// tracker is a tracking server that enforces the documented limits and records what it gets.
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
