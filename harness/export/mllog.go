package export

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// mllog writes a file for each phase, RUN/PHASE.txt, since MLPerf's rules know one batch size, one schedule and one target for each run. A phase of
// pre-training is the benchmark bert; others have no benchmark there and go by their task, in the open division.
//
// Source: mlcommons/logging, mlperf_logging/mllog/mllog.py (the line), constants.py (the keys), compliance_checker/training_* (which keys must come
// how often and in what order).
func mllog(dir string, r *series.Record) error {
	for i := range r.Recipe.Phases {
		p := &r.Recipe.Phases[i]
		if err := put(filepath.Join(dir, r.Name(), p.Name+".txt"), func(w io.Writer) error { return writeMLLog(w, r, p) }); err != nil {
			return err
		}
	}
	return nil
}

// mlEvent is a line of MLPerf's log.
type mlEvent struct {
	Namespace string         `json:"namespace"`
	Time      int64          `json:"time_ms"`
	Type      string         `json:"event_type"`
	Key       string         `json:"key"`
	Value     any            `json:"value"`
	Metadata  map[string]any `json:"metadata"`
}

// The types of events.
const (
	point         = "POINT_IN_TIME"
	intervalStart = "INTERVAL_START"
	intervalEnd   = "INTERVAL_END"
)

// mlWriter writes lines, and remembers the first error.
type mlWriter struct {
	w     io.Writer
	began time.Time
	at    float64 // seconds since then
	line  int
	err   error
}

func (m *mlWriter) log(kind, key string, value any, metadata map[string]any) {
	if m.err != nil {
		return
	}
	m.line++
	all := map[string]any{"file": "harness/export/mllog.go", "lineno": m.line}
	maps.Copy(all, metadata)
	text, err := json.Marshal(mlEvent{Time: m.began.Add(time.Duration(m.at * float64(time.Second))).UnixMilli(), Type: kind, Key: key, Value: value, Metadata: all})
	if err != nil {
		m.err = fmt.Errorf("MLLOG %s: %w", key, err)
		return
	}
	_, m.err = fmt.Fprintf(m.w, ":::MLLOG %s\n", text)
}

func writeMLLog(w io.Writer, r *series.Record, p *recipe.Phase) error {
	in := func(q series.Point) bool { return q.Phase == p.Name }
	steps := slices.DeleteFunc(slices.Clone(r.Steps), func(q series.Point) bool { return !in(q) })
	evaluations := slices.DeleteFunc(slices.Clone(r.Evaluations), func(q series.Point) bool { return !in(q) })
	m := &mlWriter{w: w, began: r.Began()}
	var before series.Point // where the phase begins
	for _, q := range merge(r) {
		if in(q.Point) {
			break
		}
		before = q.Point
	}
	m.at = before.Wall
	benchmark, division := string(p.Task), "open"
	if p.Task == bert.Pretraining {
		benchmark = "bert"
	}
	m.log(point, "submission_benchmark", benchmark, nil)
	m.log(point, "submission_division", division, nil)
	m.log(point, "submission_org", "harness", nil)
	m.log(point, "submission_platform", fmt.Sprintf("%s %s on %s", r.Backend, r.Precision, r.Environment.CPU), nil)
	m.log(point, "submission_status", "research", nil)
	m.log(point, "cache_clear", true, nil)
	m.log(intervalStart, "init_start", nil, nil)
	m.log(point, "seed", r.Seed, nil)
	m.log(point, "global_batch_size", p.GlobalBatch, nil)
	m.log(point, "gradient_accumulation_steps", max(1, p.Accumulation), nil)
	m.log(point, "max_sequence_length", p.Length, nil)
	if p.Task == bert.Pretraining {
		m.log(point, "max_predictions_per_seq", p.MaxPredictions, nil)
	}
	u := p.OptimizerNamed(r.Optimizer)
	schedule := p.Schedule.With(u.LearningRate)
	total := p.Steps
	if total == 0 {
		total = len(steps)
	}
	m.log(point, "opt_name", u.Name, nil)
	m.log(point, "opt_base_learning_rate", schedule.LearningRate, nil)
	m.log(point, "opt_learning_rate_training_steps", total, nil)
	warmup := schedule.WarmupSteps
	if warmup == 0 {
		warmup = int(schedule.WarmupRatio * float64(total))
	}
	m.log(point, "opt_learning_rate_warmup_steps", warmup, nil)
	m.log(point, "num_warmup_steps", warmup, nil)
	m.log(point, "start_warmup_step", 0, nil)
	for _, o := range [][2]string{{"eps", "epsilon"}, {"beta1", "beta_1"}, {"beta2", "beta_2"}, {"weight_decay", "weight_decay_rate"}} {
		if v, ok := u.Options[o[0]]; ok {
			if f, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil {
				m.log(point, "opt_"+u.Name+"_"+o[1], f, nil)
			}
		}
	}
	m.log(point, "train_samples", samplesOf(steps, before), nil)
	evaluated := p.Evaluation.Sequences // 0: all
	if len(evaluations) > 0 {
		evaluated = evaluations[0].Count
	}
	m.log(point, "eval_samples", evaluated, nil)
	m.log(intervalEnd, "init_stop", nil, nil)
	m.log(intervalStart, "run_start", nil, nil)

	// The metric that a target, or MLPerf, looks at: a share, as eval_accuracy is.
	metric := "masked_lm_accuracy"
	if p.Target != nil {
		metric = p.Target.Metric
	} else if p.Task == bert.QuestionAnswering {
		metric = "f1"
	} else if p.Task != bert.Pretraining {
		metric = "accuracy"
	}
	reached := false
	from := before
	for _, e := range evaluations {
		count := e.Samples - from.Samples
		block := map[string]any{"first_epoch_num": from.Samples - before.Samples, "epoch_count": count, "samples_count": count}
		m.at = from.Wall
		m.log(intervalStart, "block_start", nil, block)
		place := map[string]any{"epoch_num": e.Samples - before.Samples, "samples_count": e.Samples - before.Samples}
		trained := e.Wall // of its end; it began when the step before it had ended
		for _, s := range steps {
			if s.Total <= e.Total {
				trained = s.Wall
			}
		}
		m.at = trained
		m.log(intervalEnd, "block_stop", nil, block)
		m.log(intervalStart, "eval_start", nil, place)
		m.at = e.Wall
		for _, name := range slices.Sorted(maps.Keys(e.Values)) {
			value := e.Values[name]
			known, _ := recipe.MetricNamed(name)
			if known.Higher {
				value /= 100 // MLPerf counts shares from 0 to 1
			}
			key := "eval_" + name
			if name == metric {
				key = "eval_accuracy"
				if !known.Higher {
					key = "eval_error"
				}
			}
			m.log(point, key, results.Number(value), place)
		}
		m.log(intervalEnd, "eval_stop", nil, place)
		if t := p.Target; t != nil {
			known, _ := recipe.MetricNamed(t.Metric)
			v := e.Values[t.Metric]
			reached = reached || known.Higher && v >= t.Value || !known.Higher && v <= t.Value
		}
		from = e
	}
	if len(steps) > 0 {
		m.at = max(m.at, steps[len(steps)-1].Wall)
	}
	// Success is MLPerf's word for a run that reached its target; without one there is nothing to reach but the end.
	status := "aborted"
	complete := r.Result != nil && r.Result.Status == results.Complete
	if complete && (p.Target == nil || reached) {
		status = "success"
	}
	m.log(intervalEnd, "run_stop", nil, map[string]any{"status": status})
	return m.err
}

// samplesOf is how many sequences a phase trained on.
func samplesOf(steps []series.Point, before series.Point) int64 {
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)-1].Samples - before.Samples
}
