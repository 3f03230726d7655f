// Package tasks is the table of BERT's fine-tuning tasks. It turns the files of classification, regression, multiple
// choice and named entities into batches.
//
//	Read -> Data -> NewSet -> Set -> Source (training), Batches (evaluation) -> logits -> Predictions -> Score
//
// A row of the table describes a task's files, its labels and its metrics. Files are read as distributed: the
// benchmarks' tab-separated values with or without a header, lines of JSON, C3's and ChID's own JSON, and CoNLL's
// columns. Question answering tasks are in the table too; core/dataset/squad reads their files.
//
// Sources: Wang et al. 2018 (GLUE, arXiv:1804.07461) and the processors of google-research/bert, run_classifier.py,
// and Hugging Face transformers, glue.py; Xu et al. 2020 (CLUE, arXiv:2004.05986) and CLUEbenchmark/CLUE,
// baselines; Tjong Kim Sang and De Meulder 2003 (CoNLL-2003), Xu et al. 2020 (CLUENER, arXiv:2001.04351), and
// transformers' run_ner.py.
package tasks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"harness.invalid/core/bert"
	"harness.invalid/core/spelling"
)

// Benchmark is a group of tasks with a common score.
type Benchmark string

// The benchmarks.
const (
	GLUE Benchmark = "glue"
	CLUE Benchmark = "clue"
)

// Task is a row of the table.
type Task struct {
	Name      string
	Doc       string
	Benchmark Benchmark // "" for those of no benchmark
	Kind      bert.Task
	// Labels of a classification by their numbers; none for a regression.
	Labels []string
	// Open says that the training data decide on the labels, and Labels are an example. With gives it those of its data.
	Open bool
	// Choices of each question of a multiple choice.
	Choices int
	// Metrics by their names in core/recipe. The mean of the first Scored of them is the task's score in its
	// benchmark, and the first one says which of two models is better.
	Metrics []string
	Scored  int
	// Impossible: questions may have no answer. Chinese: passages are split and scored by characters. Question
	// answering only.
	Impossible, Chinese bool

	format format
}

// The names of metrics.
const (
	Accuracy   = "accuracy"
	F1         = "f1"
	Matthews   = "matthews_correlation"
	Pearson    = "pearson"
	Spearman   = "spearman"
	ExactMatch = "exact_match"
	Precision  = "precision"
	Recall     = "recall"
	BestF1     = "best_f1"
	BestExact  = "best_exact_match"
	// AnswerNLL is not one of the official programs': a model gives it, and predictions in a file do not.
	AnswerNLL = "answer_nll"
)

var table = []Task{
	{Name: "squad", Doc: "SQuAD v1.1: questions about passages of Wikipedia", Kind: bert.QuestionAnswering,
		Metrics: []string{F1, ExactMatch}, Scored: 1},
	{Name: "squad2", Doc: "SQuAD v2.0: the same, and questions that the passage does not answer", Kind: bert.QuestionAnswering,
		Metrics: []string{F1, ExactMatch, BestF1, BestExact}, Scored: 1, Impossible: true},

	{Name: "cola", Doc: "is a sentence grammatical", Benchmark: GLUE, Kind: bert.Classification, Labels: digits(2),
		Metrics: []string{Matthews}, Scored: 1,
		format: format{a: names("sentence"), label: names("label"), bare: []bare{{columns: 4, a: 3, b: -1, label: 1}}}},
	{Name: "sst-2", Doc: "is a sentence about a film kind", Benchmark: GLUE, Kind: bert.Classification, Labels: digits(2),
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence", "content"), label: names("label")}},
	{Name: "mrpc", Doc: "do two sentences of the news say the same", Benchmark: GLUE, Kind: bert.Classification, Labels: digits(2),
		Metrics: []string{F1, Accuracy}, Scored: 2,
		format: format{a: names("#1 String", "sentence1"), b: names("#2 String", "sentence2"), label: names("Quality", "label")}},
	{Name: "qqp", Doc: "do two questions of Quora ask the same", Benchmark: GLUE, Kind: bert.Classification, Labels: digits(2),
		Metrics: []string{F1, Accuracy}, Scored: 2,
		format: format{a: names("question1"), b: names("question2"), label: names("is_duplicate", "label"), skipShort: true}},
	{Name: "sts-b", Doc: "how alike are two sentences, 0 to 5", Benchmark: GLUE, Kind: bert.Classification,
		Metrics: []string{Pearson, Spearman}, Scored: 2,
		format: format{a: names("sentence1"), b: names("sentence2"), label: names("score", "label"),
			bare: []bare{{columns: 7, a: 5, b: 6, label: 4}, {columns: 9, a: 5, b: 6, label: 4}}}},
	{Name: "mnli", Doc: "does a text entail a sentence; texts of the genres of the training data", Benchmark: GLUE,
		Kind: bert.Classification, Labels: inference, Metrics: []string{Accuracy}, Scored: 1,
		format: mnli},
	{Name: "mnli-mm", Doc: "the same; texts of other genres (mismatched)", Benchmark: GLUE, Kind: bert.Classification,
		Labels: inference, Metrics: []string{Accuracy}, Scored: 1,
		format: mnli},
	{Name: "qnli", Doc: "does a sentence answer a question", Benchmark: GLUE, Kind: bert.Classification, Labels: entailment,
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("question"), b: names("sentence"), label: names("label")}},
	{Name: "rte", Doc: "does a text entail a sentence", Benchmark: GLUE, Kind: bert.Classification, Labels: entailment,
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence1"), b: names("sentence2"), label: names("label")}},
	{Name: "wnli", Doc: "whom does a pronoun mean", Benchmark: GLUE, Kind: bert.Classification, Labels: digits(2),
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence1"), b: names("sentence2"), label: names("label")}},

	{Name: "afqmc", Doc: "do two questions to a bank ask the same", Benchmark: CLUE, Kind: bert.Classification, Labels: digits(2),
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence1"), b: names("sentence2"), label: names("label")}},
	{Name: "tnews", Doc: "which of 15 topics is a headline of", Benchmark: CLUE, Kind: bert.Classification, Labels: topics(),
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence"), label: names("label")}},
	{Name: "iflytek", Doc: "which of 119 kinds is an application of", Benchmark: CLUE, Kind: bert.Classification, Labels: digits(119),
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence"), label: names("label")}},
	{Name: "cmnli", Doc: "does a text entail a sentence, translated", Benchmark: CLUE, Kind: bert.Classification, Labels: inference,
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence1"), b: names("sentence2"), label: names("label"), skipLabel: "-"}},
	{Name: "ocnli", Doc: "the same, written in Chinese", Benchmark: CLUE, Kind: bert.Classification, Labels: inference,
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("sentence1"), b: names("sentence2"), label: names("label"), skipLabel: "-"}},
	{Name: "wsc", Doc: "does a pronoun mean a noun", Benchmark: CLUE, Kind: bert.Classification, Labels: []string{"true", "false"},
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("text"), label: names("label"), record: winograd}},
	{Name: "csl", Doc: "are all keywords those of an abstract", Benchmark: CLUE, Kind: bert.Classification, Labels: digits(2),
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{a: names("keyword"), b: names("abst"), label: names("label")}},
	{Name: "chid", Doc: "which of 10 idioms belongs into a blank", Benchmark: CLUE, Kind: bert.MultipleChoice, Choices: 10,
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{file: idioms}},
	{Name: "c3", Doc: "which of up to 4 answers is right about a text or a dialogue", Benchmark: CLUE, Kind: bert.MultipleChoice,
		Choices: 4, Metrics: []string{Accuracy}, Scored: 1,
		format: format{file: c3}},
	{Name: "cmrc2018", Doc: "questions about passages, simplified Chinese", Benchmark: CLUE, Kind: bert.QuestionAnswering,
		Metrics: []string{ExactMatch, F1}, Scored: 1, Chinese: true},

	{Name: "ner", Doc: "which words are names, and of what (CoNLL-2003, WNUT 2017, CLUENER and the like)",
		Kind: bert.TokenClassification, Labels: conll2003, Open: true,
		Metrics: []string{F1, Precision, Recall, Accuracy}, Scored: 1,
		format: format{file: entities}},

	{Name: "swag", Doc: "which of up to 4 endings fits; other multiple choice as lines of JSON", Kind: bert.MultipleChoice, Choices: 4,
		Metrics: []string{Accuracy}, Scored: 1,
		format: format{file: swag}},

	{Name: "ax", Doc: "GLUE's diagnostics of inference, for a model trained on mnli", Kind: bert.Classification, Labels: inference,
		Metrics: []string{Matthews, Accuracy}, Scored: 1,
		format: format{a: names("sentence1", "Premise"), b: names("sentence2", "Hypothesis"), label: names("gold_label", "label", "Label")}},

	{Name: "drcd", Doc: "questions about passages, traditional Chinese", Kind: bert.QuestionAnswering,
		Metrics: []string{F1, ExactMatch}, Scored: 1, Chinese: true},
}

var (
	inference  = []string{"contradiction", "entailment", "neutral"}
	entailment = []string{"entailment", "not_entailment"}
	conll2003  = []string{"B-LOC", "B-MISC", "B-ORG", "B-PER", "I-LOC", "I-MISC", "I-ORG", "I-PER", "O"}
	mnli       = format{a: names("sentence1"), b: names("sentence2"), label: names("gold_label", "label"), skipLabel: "-"}
)

// digits are the labels 0 to n-1.
func digits(n int) []string {
	labels := make([]string, n)
	for i := range labels {
		labels[i] = strconv.Itoa(i)
	}
	return labels
}

// topics are the labels of TNEWS: 100 to 116, of which 105 and 111 are not used.
func topics() []string {
	var labels []string
	for i := 100; i <= 116; i++ {
		if i != 105 && i != 111 {
			labels = append(labels, strconv.Itoa(i))
		}
	}
	return labels
}

func names(list ...string) []string { return list }

// aliases are other names under which tasks are known.
var aliases = map[string]string{"squadv2": "squad2", "squadv11": "squad", "sst": "sst-2", "mnlim": "mnli", "mnlimatched": "mnli",
	"mnlimismatched": "mnli-mm", "diagnostic": "ax", "cluewsc": "wsc", "cluewsc2020": "wsc", "cmrc": "cmrc2018",
	"conll2003": "ner", "wnut17": "ner", "wnut2017": "ner", "cluener": "ner", "cluener2020": "ner"}

// All lists all tasks, in the order of the benchmarks' tables.
func All() []Task { return slices.Clone(table) }

// Names lists the names of all tasks.
func Names() []string {
	list := make([]string, len(table))
	for i, t := range table {
		list[i] = t.Name
	}
	return list
}

// Named finds a task. Case, dashes, underscores and dots make no difference: SST-2 is sst2.
func Named(name string) (*Task, error) {
	key := plain(name)
	if other, ok := aliases[key]; ok {
		key = plain(other)
	}
	for i := range table {
		if plain(table[i].Name) == key {
			return &table[i], nil
		}
	}
	return nil, fmt.Errorf("no task is named %q%s (known: %s)", name, spelling.Hint(name, Names()), strings.Join(Names(), ", "))
}

func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_.", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Of returns the tasks of a benchmark, in the order of the table.
func Of(b Benchmark) []Task {
	return slices.DeleteFunc(All(), func(t Task) bool { return t.Benchmark != b })
}

// Head is what a model for the task has on top.
func (t *Task) Head() bert.Head { return bert.Head{Task: t.Kind, Labels: t.NumLabels()} }

// With returns an open task with the labels of its training data.
func (t *Task) With(labels []string) *Task {
	closed := *t
	closed.Labels, closed.Open = labels, false
	return &closed
}

// NumLabels is the number of labels of a classification, 1 for a regression, and the choices of a multiple choice;
// 0 for question answering.
func (t *Task) NumLabels() int {
	switch {
	case t.Kind == bert.MultipleChoice:
		return t.Choices
	case t.Kind == bert.Classification && len(t.Labels) == 0:
		return 1
	}
	return len(t.Labels)
}

// Measures reports whether a metric belongs to the task.
func (t *Task) Measures(metric string) bool { return slices.Contains(t.Metrics, metric) }

// Regression reports whether the task is a regression.
func (t *Task) Regression() bool { return t.Kind == bert.Classification && len(t.Labels) == 0 }
