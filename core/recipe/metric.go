package recipe

import (
	"slices"

	"harness.invalid/core/bert"
)

// Metric is something that an evaluation measures. Names and units are the same in recipes, run records and tables.
type Metric struct {
	Name   string
	Doc    string
	Tasks  []bert.Task
	Higher bool // higher is better
}

var metrics = []Metric{
	{"loss", "mean loss that is trained, nats", []bert.Task{bert.Pretraining, bert.Classification}, false},
	{"masked_lm_loss", "mean cross-entropy over masked positions, nats", []bert.Task{bert.Pretraining}, false},
	{"masked_lm_accuracy", "share of masked positions whose best token is right, %", []bert.Task{bert.Pretraining}, true},
	{"next_sentence_loss", "mean cross-entropy, nats", []bert.Task{bert.Pretraining}, false},
	{"next_sentence_accuracy", "share of pairs that are told right, %", []bert.Task{bert.Pretraining}, true},
	{"exact_match", "SQuAD's exact match, %", []bert.Task{bert.QuestionAnswering}, true},
	{"f1", "SQuAD's F1, %", []bert.Task{bert.QuestionAnswering}, true},
	{"accuracy", "share of labels that are right, %", []bert.Task{bert.Classification}, true},
}

// Metrics are all metrics, in the order of tables.
func Metrics() []Metric { return slices.Clone(metrics) }

// MetricNamed finds a metric.
func MetricNamed(name string) (Metric, bool) {
	i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return metrics[i], true
}

// Of reports whether a task is measured by the metric.
func (m Metric) Of(t bert.Task) bool { return slices.Contains(m.Tasks, t) }
