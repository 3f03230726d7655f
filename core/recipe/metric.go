package recipe

import (
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
)

// Metric is a measure of an evaluation. Recipes, run records and tables use the same names and units.
type Metric struct {
	Name   string
	Doc    string
	Tasks  []bert.Task
	Higher bool // higher is better
}

var (
	labelled = []bert.Task{bert.Classification, bert.MultipleChoice, bert.TokenClassification}
	entities = []bert.Task{bert.TokenClassification}
	spans    = []bert.Task{bert.QuestionAnswering}
)

var metrics = []Metric{
	{"loss", "mean loss that is trained, nats", append([]bert.Task{bert.Pretraining}, labelled...), false},
	{"masked_lm_loss", "mean cross-entropy over masked positions, nats", []bert.Task{bert.Pretraining}, false},
	{"masked_lm_accuracy", "share of masked positions whose best token is right, %", []bert.Task{bert.Pretraining}, true},
	{"next_sentence_loss", "mean cross-entropy, nats", []bert.Task{bert.Pretraining}, false},
	{"next_sentence_accuracy", "share of pairs that are told right, %", []bert.Task{bert.Pretraining}, true},
	{tasks.ExactMatch, "SQuAD's exact match, or CMRC's, %", spans, true},
	{tasks.F1, "SQuAD's F1, or CMRC's; of labels that of the class 1; of named entities seqeval's, %",
		[]bert.Task{bert.QuestionAnswering, bert.Classification, bert.TokenClassification}, true},
	{tasks.Precision, "share of the predicted entities that are right, %", entities, true},
	{tasks.Recall, "share of the entities that are found, %", entities, true},
	{tasks.AnswerNLL, "negative log-likelihood of the answers, mean over questions, nats", spans, false},
	{tasks.BestExact, "exact match with the best threshold for no answer, %", spans, true},
	{tasks.BestF1, "F1 with the best threshold for no answer, %", spans, true},
	{tasks.Accuracy, "share of labels that are right, %", labelled, true},
	{tasks.Matthews, "Matthews correlation coefficient x 100", labelled, true},
	{tasks.Pearson, "Pearson correlation coefficient x 100", labelled, true},
	{tasks.Spearman, "Spearman rank correlation coefficient x 100", labelled, true},
}

// Metrics lists all metrics, in the order of tables.
func Metrics() []Metric { return slices.Clone(metrics) }

// MetricNamed finds a metric.
func MetricNamed(name string) (Metric, bool) {
	i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return metrics[i], true
}

// Of reports whether the metric applies to a task.
func (m Metric) Of(t bert.Task) bool { return slices.Contains(m.Tasks, t) }

// ofEvery reports whether every data set of the metric's tasks has it: a model gives it, and not the data set's official
// program.
func (m Metric) ofEvery() bool { return m.Name == "loss" || m.Name == tasks.AnswerNLL }
