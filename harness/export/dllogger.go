package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// dllogger writes RUN.json as the programs of NVIDIA's DeepLearningExamples do: what the run is of as PARAMETER, a
// line for each step and evaluation at [phase, step], and the final metrics without a step.
//
// Source: NVIDIA/dllogger, dllogger/logger.py, JSONStreamBackend: lines of "DLLL " and JSON, whose times are text.
func dllogger(dir string, r *series.Record) error {
	return put(dir, r.Name()+".json", func(w io.Writer) error { return writeDLLogger(w, r) })
}

type dlLine struct {
	Timestamp string `json:"timestamp"` // seconds since 1970
	Elapsed   string `json:"elapsedtime"`
	Datetime  string `json:"datetime"`
	Type      string `json:"type"`
	Step      any    `json:"step,omitempty"`
	Data      any    `json:"data,omitempty"`
	Metric    string `json:"metric,omitempty"`
	Metadata  any    `json:"metadata,omitempty"`
}

func writeDLLogger(w io.Writer, r *series.Record) error {
	out := bufio.NewWriter(w)
	line := func(seconds float64, l dlLine) error {
		at := r.Began().Add(time.Duration(seconds * float64(time.Second)))
		l.Timestamp = strconv.FormatFloat(float64(at.UnixNano())/1e9, 'f', 6, 64)
		l.Elapsed = strconv.FormatFloat(seconds, 'f', 6, 64)
		l.Datetime = at.UTC().Format("2006-01-02 15:04:05.000000")
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "DLLL %s\n", text)
		return err
	}
	for _, q := range series.Quantities([]*series.Record{r}) {
		stage := "train"
		if q.Evaluated {
			stage = "val"
		}
		if err := line(0, dlLine{Type: "METADATA", Metric: stage + "_" + q.Name,
			Metadata: map[string]any{"STAGE": stage, "unit": nil, "format": ":.6g", "description": q.Label}}); err != nil {
			return err
		}
	}
	parameters := map[string]any{
		"recipe": r.Identity.Recipe, "fingerprint": r.Fingerprint, "data_digest": r.DataDigest, "backend": r.Backend,
		"precision": r.Precision, "optimizer": r.Optimizer, "seed": r.Seed,
	}
	if err := line(0, dlLine{Type: "LOG", Step: "PARAMETER", Data: parameters}); err != nil {
		return err
	}
	phase := map[string]int{}
	for i := range r.Recipe.Phases {
		phase[r.Recipe.Phases[i].Name] = i
	}
	end := 0.0
	for _, p := range merge(r.Steps, r.Evaluations) {
		stage := "train_"
		if p.evaluated {
			stage = "val_"
		}
		values := map[string]results.Number{}
		for name, v := range p.Values {
			values[stage+name] = results.Number(v)
		}
		end = p.Wall
		if err := line(end, dlLine{Type: "LOG", Step: []int{phase[p.Phase], p.Step}, Data: values}); err != nil {
			return err
		}
	}
	summary := map[string]results.Number{}
	if r.Result != nil {
		for name, v := range r.Result.Metrics {
			summary[name] = results.Number(v)
		}
		for name, s := range r.Result.MeasuredSeconds {
			summary["measured_seconds."+name] = results.Number(s)
		}
		for _, p := range r.Result.Phases {
			summary["measured_sequences_per_second."+p.Name] = results.Number(p.SequencesPerSecond())
		}
	}
	if len(slices.Collect(maps.Keys(summary))) > 0 {
		if err := line(end, dlLine{Type: "LOG", Step: []int{}, Data: summary}); err != nil {
			return err
		}
	}
	return out.Flush()
}
