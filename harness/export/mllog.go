package export

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// mllog writes a file for each phase, RUN/PHASE.txt, since MLPerf's rules allow one batch size, one schedule and
// one target per run. A phase of pre-training is the benchmark bert, in the open division. Other phases have no benchmark
// there, and name none.
//
// Sources: mlcommons/logging, mlperf_logging/mllog/mllog.py (the line), constants.py (the keys),
// compliance_checker/training_* (which keys must come how often and in what order).
func mllog(dir string, r *series.Record) error {
	for i := range r.Recipe.Phases {
		p := &r.Recipe.Phases[i]
		if err := put(dir, r.Name()+"/"+p.Name+".txt", func(w io.Writer) error { return writeMLLog(w, r, p) }); err != nil {
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
	now := m.began.Add(time.Duration(m.at * float64(time.Second)))
	text, err := json.Marshal(mlEvent{Time: now.UnixMilli(), Type: kind, Key: key, Value: value, Metadata: all})
	if err != nil {
		m.err = fmt.Errorf("MLLOG %s: %w", key, err)
		return
	}
	_, m.err = fmt.Fprintf(m.w, ":::MLLOG %s\n", text)
}

// mlPhase is a phase of a run to log.
type mlPhase struct {
	*mlWriter
	run                *series.Record
	phase              *recipe.Phase
	steps, evaluations []series.Point
	before             series.Point // where the phase begins
}

func writeMLLog(w io.Writer, r *series.Record, p *recipe.Phase) error {
	in := func(q series.Point) bool { return q.Phase == p.Name }
	m := mlPhase{
		mlWriter: &mlWriter{w: w, began: r.Began()}, run: r, phase: p,
		steps:       slices.DeleteFunc(slices.Clone(r.Steps), func(q series.Point) bool { return !in(q) }),
		evaluations: slices.DeleteFunc(slices.Clone(r.Evaluations), func(q series.Point) bool { return !in(q) }),
	}
	for _, q := range merge(r.Steps, r.Evaluations) {
		if in(q.Point) {
			break
		}
		m.before = q.Point
	}
	m.at = m.before.Wall
	m.submission()
	m.log(intervalStart, "init_start", nil, nil)
	m.batches()
	m.optimizer()
	m.samples()
	m.log(intervalEnd, "init_stop", nil, nil)
	m.log(intervalStart, "run_start", nil, nil)
	from := m.before
	for _, e := range m.evaluations {
		m.block(from, e)
		from = e
	}
	if n := len(m.steps); n > 0 {
		m.at = max(m.at, m.steps[n-1].Wall)
	}
	// A run that reached its target is a success to MLPerf; without a target, one that reached its end.
	status := "aborted"
	complete := r.Result != nil && r.Result.Status == results.Complete
	if complete && (p.Target == nil || m.reached()) {
		status = "success"
	}
	m.log(intervalEnd, "run_stop", nil, map[string]any{"status": status})
	return m.err
}

func (m *mlPhase) submission() {
	// The compliance checker opens a file of rules named after the benchmark, and crashes where it has none.
	if m.phase.Task == bert.Pretraining {
		m.log(point, "submission_benchmark", "bert", nil)
	}
	m.log(point, "submission_division", "open", nil)
	m.log(point, "submission_org", "harness", nil)
	m.log(point, "submission_platform", fmt.Sprintf("%s %s on %s", m.run.Backend, m.run.Precision, m.run.Environment.CPU), nil)
	m.log(point, "submission_status", "research", nil)
	m.log(point, "cache_clear", true, nil)
}

func (m *mlPhase) batches() {
	p := m.phase
	m.log(point, "seed", m.run.Seed, nil)
	m.log(point, "global_batch_size", p.GlobalBatch, nil)
	m.log(point, "gradient_accumulation_steps", max(1, p.Accumulation), nil)
	m.log(point, "max_sequence_length", p.Length, nil)
	if p.Task == bert.Pretraining {
		m.log(point, "max_predictions_per_seq", p.MaxPredictions, nil)
	}
}

// optimizer logs the rule and its schedule.
func (m *mlPhase) optimizer() {
	u := m.phase.OptimizerNamed(m.run.Optimizer)
	schedule := m.phase.Schedule.With(u.LearningRate)
	total := m.phase.Steps
	if total == 0 {
		total = len(m.steps)
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
}

func (m *mlPhase) samples() {
	m.log(point, "train_samples", samplesOf(m.steps, m.before), nil)
	evaluated := m.phase.Evaluation.Sequences // 0: all
	if len(m.evaluations) > 0 {
		evaluated = m.evaluations[0].Count
	}
	m.log(point, "eval_samples", evaluated, nil)
}

// block logs the steps from one evaluation to the next, and the second evaluation.
func (m *mlPhase) block(from, e series.Point) {
	count := e.Samples - from.Samples
	block := map[string]any{"first_epoch_num": from.Samples - m.before.Samples, "epoch_count": count, "samples_count": count}
	m.at = from.Wall
	m.log(intervalStart, "block_start", nil, block)
	place := map[string]any{"epoch_num": e.Samples - m.before.Samples, "samples_count": e.Samples - m.before.Samples}
	trained := e.Wall // the evaluation's end; it began when the last step before it ended
	for _, s := range m.steps {
		if s.Total <= e.Total {
			trained = s.Wall
		}
	}
	m.at = trained
	m.log(intervalEnd, "block_stop", nil, block)
	m.log(intervalStart, "eval_start", nil, place)
	m.at = e.Wall
	metric := m.metric()
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
}

// metric is what the target, or MLPerf, looks at.
func (m *mlPhase) metric() string {
	switch {
	case m.phase.Target != nil:
		return m.phase.Target.Metric
	case m.phase.Task == bert.Pretraining:
		return "masked_lm_accuracy"
	case m.phase.Task == bert.QuestionAnswering, m.phase.Task == bert.TokenClassification:
		return "f1"
	}
	return "accuracy"
}

// reached reports whether an evaluation reached the target.
func (m *mlPhase) reached() bool {
	t := m.phase.Target
	known, _ := recipe.MetricNamed(t.Metric)
	return slices.ContainsFunc(m.evaluations, func(e series.Point) bool {
		v := e.Values[t.Metric]
		return known.Higher && v >= t.Value || !known.Higher && v <= t.Value
	})
}

// samplesOf is how many sequences a phase trained on.
func samplesOf(steps []series.Point, before series.Point) int64 {
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)-1].Samples - before.Samples
}
