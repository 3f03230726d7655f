package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// mlflowRun is a run as MLflow sees it.
type mlflowRun struct {
	Experiment, Name, Status string
	Start, End               int64 // milliseconds since 1970; End 0: it goes on
	Params, Tags             map[string]string
	Metrics                  []mlflowMetric
}

// mlflowMetric is a value at a step of the run.
type mlflowMetric struct {
	Key       string         `json:"key"`
	Value     results.Number `json:"value"`
	Timestamp int64          `json:"timestamp"`
	Step      int            `json:"step"`
}

// newMLflowRun turns the recipe's fields into parameters, except those too long for MLflow.
func newMLflowRun(r *series.Record) *mlflowRun {
	m := &mlflowRun{
		Experiment: r.Identity.Recipe, Name: r.Name(), Status: "RUNNING", Start: r.Began().UnixMilli(),
		Params: map[string]string{
			"backend": r.Backend, "precision": r.Precision, "optimizer": r.Optimizer, "seed": strconv.FormatUint(r.Seed, 10),
			"fingerprint": r.Fingerprint, "data_digest": r.DataDigest,
		},
		Tags: map[string]string{
			"mlflow.runName": r.Name(), "mlflow.source.type": "LOCAL", "mlflow.source.name": "harness", "harness.folder": r.Dir,
			"harness.cpu":     r.Environment.CPU,
			"harness.version": strings.TrimSpace(r.Environment.Version + " " + r.Environment.Revision),
		},
	}
	for path, value := range r.Recipe.Fields() {
		var text string // what is text in JSON has no quotes in MLflow
		if json.Unmarshal([]byte(value), &text) == nil && value != "null" {
			value = text
		}
		// MLflow's limits: 250 characters for a key, and 500 for the value of a parameter on the oldest servers.
		if len(path) <= 200 && len(value) <= 500 {
			m.Params["recipe."+path] = value
		}
	}
	if res := r.Result; res != nil {
		m.End = res.Finished.UnixMilli()
		switch res.Status {
		case results.Complete:
			m.Status = "FINISHED"
		case results.Stopped:
			m.Status = "KILLED"
		default:
			m.Status = "FAILED"
		}
	}
	if stop := r.Stop; stop != nil {
		m.End, m.Status = stop.Time.UnixMilli(), "FAILED"
		if stop.Status == results.Stopped {
			m.Status = "KILLED"
		}
	}
	for _, p := range merge(r.Steps, r.Evaluations) {
		kind := "trained/"
		if p.evaluated {
			kind = "evaluated/"
		}
		at := r.Began().Add(time.Duration(p.Wall * float64(time.Second))).UnixMilli()
		for _, name := range slices.Sorted(maps.Keys(p.Values)) {
			m.Metrics = append(m.Metrics, mlflowMetric{kind + name, results.Number(p.Values[name]), at, p.Total})
		}
	}
	return m
}

// id hashes the names that it gets into 32 hexadecimal digits, as MLflow's own ids have, so that exporting a run
// again replaces it.
func id(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// The numbers of MLflow's enumerations in a file store. Source: mlflow/entities/run_status.py, source_type.py,
// lifecycle_stage.py.
var mlflowStatus = map[string]int{"RUNNING": 1, "FINISHED": 3, "FAILED": 4, "KILLED": 5}

const (
	mlflowLocal  = 4
	mlflowActive = "active"
	aboutFile    = "meta.yaml" // of an experiment, and of a run
)

// mlflowStore writes a run into a file store, the folder that `mlflow ui --backend-store-uri FOLDER` shows.
//
// Source: mlflow/store/tracking/file_store.py: EXPERIMENT/meta.yaml, EXPERIMENT/RUN/meta.yaml, and a file for each
// metric (lines of time, value, step), parameter and tag.
func mlflowStore(dir string, r *series.Record) error {
	m := newMLflowRun(r)
	root, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// A store names experiments by numbers, 0 being its default: these are the first 6 bytes of a hash, and odd.
	sum := sha256.Sum256([]byte(m.Experiment))
	experiment := strconv.FormatUint(binary.BigEndian.Uint64(sum[:8])>>16|1, 10)
	run := id(r.Fingerprint, r.DataDigest, r.Backend, r.Precision, r.Optimizer, strconv.FormatUint(r.Seed, 10), strconv.FormatInt(m.Start, 10))
	place := func(parts ...string) string {
		return (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(append([]string{root, experiment}, parts...)...))}).String()
	}
	folder := filepath.Join(root, experiment, run)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	about := filepath.Join(root, experiment)
	if _, err := os.Stat(filepath.Join(about, aboutFile)); errors.Is(err, os.ErrNotExist) {
		if err := putYAML(about, aboutFile, map[string]any{
			"artifact_location": place(), "creation_time": m.Start, "last_update_time": m.Start, "experiment_id": experiment,
			"lifecycle_stage": mlflowActive, "name": m.Experiment,
		}); err != nil {
			return err
		}
	}
	files := map[string][]byte{}
	for name, value := range m.Params {
		files["params/"+name] = []byte(value)
	}
	for name, value := range m.Tags {
		files["tags/"+name] = []byte(value)
	}
	for _, v := range m.Metrics {
		name := "metrics/" + v.Key
		files[name] = fmt.Appendf(files[name], "%d %s %d\n", v.Timestamp, pythonFloat(float64(v.Value)), v.Step)
	}
	if err := os.MkdirAll(filepath.Join(folder, "artifacts"), 0o777); err != nil {
		return err
	}
	if err := putAll(folder, files); err != nil {
		return err
	}
	// Last, because it is what makes the folder a run.
	var end any
	if m.End != 0 {
		end = m.End
	}
	return putYAML(folder, aboutFile, map[string]any{
		"artifact_uri": place(run, "artifacts"), "start_time": m.Start, "end_time": end, "deleted_time": nil, "entry_point_name": "",
		"experiment_id":   experiment,
		"lifecycle_stage": mlflowActive, "run_id": run, "run_uuid": run, "run_name": m.Name, "source_name": "",
		"source_type": mlflowLocal, "source_version": "",
		"status": mlflowStatus[m.Status], "tags": []string{}, "user_id": "",
	})
}

// putAll writes files into a folder. Names of metrics and of fields come from records, and cannot lead out of it.
func putAll(folder string, files map[string][]byte) (err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		if err := root.WriteFile(name, files[name], 0o666); err != nil {
			return err
		}
	}
	return nil
}

// putYAML writes a mapping. Texts are quoted, since MLflow takes the number of an experiment for text.
func putYAML(dir, name string, fields map[string]any) error {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, err := yaml.MarshalWithOptions(fields[name], yaml.JSON())
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s: %s\n", name, bytes.TrimSpace(text))
	}
	return put(dir, name, func(w io.Writer) error { _, err := w.Write(out.Bytes()); return err })
}

// pythonFloat formats a number for Python's float().
func pythonFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// The limits of one call to log-batch. Source: MLflow REST API, "Log Batch".
const (
	batchMetrics = 1000
	batchParams  = 100
	batchTags    = 100
)

// mlflowClient talks to a tracking server.
type mlflowClient struct {
	ctx  context.Context
	base string
}

// mlflowServer sends runs to a tracking server. Like MLflow's own client it takes MLFLOW_TRACKING_TOKEN, or
// MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, from the environment.
func mlflowServer(ctx context.Context, address string, records []*series.Record) error {
	c := &mlflowClient{ctx, strings.TrimSuffix(address, "/") + "/api/2.0/mlflow/"}
	for _, r := range records {
		if err := c.send(newMLflowRun(r)); err != nil {
			return fmt.Errorf("run %s: %w", r.Dir, err)
		}
	}
	return nil
}

// send creates the run on the server, in the experiment named after the recipe.
func (c *mlflowClient) send(m *mlflowRun) error {
	var found struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	experiment := ""
	switch err := c.call(http.MethodGet, "experiments/get-by-name?experiment_name="+url.QueryEscape(m.Experiment), nil, &found); {
	case err == nil:
		experiment = found.Experiment.ID
	case isMissing(err):
		var made struct {
			ID string `json:"experiment_id"`
		}
		if err := c.call(http.MethodPost, "experiments/create", map[string]any{"name": m.Experiment}, &made); err != nil {
			return err
		}
		experiment = made.ID
	default:
		return err
	}
	var created struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"run"`
	}
	tags := pairs(m.Tags)
	if err := c.call(http.MethodPost, "runs/create", map[string]any{
		"experiment_id": experiment, "run_name": m.Name, "start_time": m.Start, "tags": tags[:min(len(tags), batchTags)],
	}, &created); err != nil {
		return err
	}
	run := created.Run.Info.ID
	if run == "" {
		return errors.New("the server made a run without a run_id")
	}
	for part := range slices.Chunk(pairs(m.Params), batchParams) {
		if err := c.call(http.MethodPost, "runs/log-batch", map[string]any{"run_id": run, "params": part}, nil); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(m.Metrics, batchMetrics) {
		if err := c.call(http.MethodPost, "runs/log-batch", map[string]any{"run_id": run, "metrics": part}, nil); err != nil {
			return err
		}
	}
	if m.End == 0 {
		return nil
	}
	return c.call(http.MethodPost, "runs/update", map[string]any{"run_id": run, "status": m.Status, "end_time": m.End}, nil)
}

// pair is a tag or a parameter.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func pairs(m map[string]string) []pair {
	list := make([]pair, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, pair{key, m[key]})
	}
	return list
}

// refusal is a server's answer that is not a success.
type refusal struct {
	call, code, message string
	status              int
}

func (e *refusal) Error() string {
	text := fmt.Sprintf("MLflow %s: status %d", e.call, e.status)
	if e.code != "" {
		text += " " + e.code
	}
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

func isMissing(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == "RESOURCE_DOES_NOT_EXIST"
}

// callTimeout is the time a server may take for a call.
const callTimeout = time.Minute

func (c *mlflowClient) call(method, name string, body, answer any) error {
	ctx, cancel := context.WithTimeout(c.ctx, callTimeout)
	defer cancel()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+name, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("MLFLOW_TRACKING_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	} else if user := os.Getenv("MLFLOW_TRACKING_USERNAME"); user != "" {
		request.SetBasicAuth(user, os.Getenv("MLFLOW_TRACKING_PASSWORD"))
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("MLflow: %w", err)
	}
	defer reply.Body.Close()
	text, err = io.ReadAll(io.LimitReader(reply.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("MLflow %s: %w", name, err)
	}
	if reply.StatusCode != http.StatusOK {
		r := &refusal{call: strings.SplitN(name, "?", 2)[0], status: reply.StatusCode}
		var said struct {
			Code    string `json:"error_code"`
			Message string `json:"message"`
		}
		if json.Unmarshal(text, &said) == nil {
			r.code, r.message = said.Code, said.Message
		}
		return r
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("MLflow %s: %w", name, err)
	}
	return nil
}
