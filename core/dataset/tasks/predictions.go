package tasks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/score"
)

// Predictions are a model's predictions by example id.
type Predictions struct {
	Task *Task
	list []prediction
	by   map[string]int
}

type prediction struct {
	id    string
	label int     // of a classification or a multiple choice
	value float64 // of a regression

	words, tags []string // of named entities; no words where a file lacks them
}

// Predict derives a set's predictions from the logits of its batches: [B, labels], [B, 1] for a regression or
// choices, [B, S, labels] for named entities. A NaN loses against any other value.
func (s *Set) Predict(logits []float32) (*Predictions, error) {
	t := s.Data.Task
	if t.Kind == bert.TokenClassification {
		if want := len(s.sequences) * s.MaxLength * len(t.Labels); len(logits) != want {
			return nil, fmt.Errorf("task %s: %d logits for %d sequences, want %d", t.Name, len(logits), len(s.sequences), want)
		}
		return s.predictTags(logits), nil
	}
	n, width := len(s.Data.Examples), max(1, len(t.Labels), t.Choices)
	if len(logits) != n*width {
		return nil, fmt.Errorf("task %s: %d logits for %d examples, want %d", t.Name, len(logits), n, n*width)
	}
	p := &Predictions{Task: t, by: make(map[string]int, n)}
	for i := range s.Data.Examples {
		row := logits[i*width : (i+1)*width]
		p.add(prediction{id: s.Data.Examples[i].ID, label: greatest(row), value: float64(row[0])})
	}
	return p, nil
}

// greatest is the index of the greatest value, of equal ones the first.
func greatest(row []float32) int {
	best := -1
	for i, v := range row {
		if !math.IsNaN(float64(v)) && (best < 0 || v > row[best]) {
			best = i
		}
	}
	return max(best, 0)
}

func (p *Predictions) add(q prediction) {
	p.by[q.id] = len(p.list)
	p.list = append(p.list, q)
}

// Score measures predictions against the labels of data, in the units of the official programs: fractions and
// coefficients, 0 to 1 or -1 to 1. Every example must have its prediction. A correlation that is not defined is
// NaN.
func (d *Data) Score(p *Predictions) (map[string]float64, error) {
	if !d.Labelled() {
		return nil, fmt.Errorf("task %s: %s has examples without labels, which can't be scored", d.Task.Name, d.Name)
	}
	if d.Task.Kind == bert.TokenClassification {
		s, err := d.Entities(p)
		return map[string]float64{F1: s.F1, Precision: s.Precision, Recall: s.Recall, Accuracy: s.Accuracy}, err
	}
	labels, said := make([]int, len(d.Examples)), make([]int, len(d.Examples))
	targets, values := make([]float64, len(d.Examples)), make([]float64, len(d.Examples))
	for i, e := range d.Examples {
		at, ok := p.by[e.ID]
		if !ok {
			return nil, fmt.Errorf("task %s: example %s (%s) has no prediction; there are %d for others", d.Task.Name, e.ID, e.Place, len(p.list))
		}
		labels[i], said[i] = e.Label, p.list[at].label
		targets[i], values[i] = float64(e.Target), p.list[at].value
	}
	out := make(map[string]float64)
	for _, m := range d.Task.Metrics {
		v, err := measure(m, said, labels, values, targets)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", d.Task.Name, err)
		}
		out[m] = v
	}
	return out, nil
}

func measure(metric string, said, labels []int, values, targets []float64) (v float64, err error) {
	switch metric {
	case Accuracy:
		return score.Accuracy(said, labels)
	case F1:
		return score.F1(said, labels, 1)
	case Matthews:
		return score.Matthews(said, labels)
	case Pearson:
		v, err = score.Pearson(values, targets)
	case Spearman:
		v, err = score.Spearman(values, targets)
	default:
		panic("tasks: the table has a metric that nothing measures")
	}
	if errors.Is(err, score.ErrNone) {
		return math.NaN(), nil // as SciPy says of a constant series
	}
	return v, err
}

// text is a prediction as files have it.
func (p *Predictions) text(q prediction) string {
	switch t := p.Task; {
	case t.Regression():
		return strconv.FormatFloat(q.value, 'f', 3, 64)
	case t.Kind == bert.MultipleChoice:
		return strconv.Itoa(q.label)
	default:
		return t.Labels[q.label]
	}
}

// Extension is that of a task's predictions in the format of its benchmark.
func (t *Task) Extension() string {
	switch {
	case t.Kind == bert.QuestionAnswering, t.Name == "chid":
		return ".json"
	case t.Benchmark == GLUE, t.Name == "ax":
		return ".tsv"
	case t.Kind == bert.TokenClassification:
		return ".conll"
	}
	return ".jsonl"
}

// Save writes predictions as their benchmark wants them: GLUE's tab-separated index and prediction, CLUE's lines of
// {"id": 0, "label": "1"}, ChID's one object, words with their tags in CoNLL's form.
func (p *Predictions) Save(path string) error {
	return durable.WriteFile(path, func(w io.Writer) error { return p.write(w) })
}

func (p *Predictions) write(w io.Writer) error {
	b := bufio.NewWriter(w)
	switch t := p.Task; {
	case t.Kind == bert.TokenClassification:
		for _, q := range p.list {
			for i, tag := range q.tags {
				fmt.Fprintf(b, "%s\t%s\n", q.words[i], tag)
			}
			b.WriteString("\n")
		}
	case t.Name == "chid":
		b.WriteString("{")
		for i, q := range p.list {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(b, "\n    %s: %d", quoted(q.id), q.label)
		}
		b.WriteString("\n}\n")
	case t.Extension() == ".tsv":
		b.WriteString("index\tprediction\n")
		for _, q := range p.list {
			fmt.Fprintf(b, "%s\t%s\n", q.id, p.text(q))
		}
	default:
		for _, q := range p.list {
			label := quoted(p.text(q))
			if t.Kind == bert.MultipleChoice {
				label = p.text(q)
			}
			fmt.Fprintf(b, "{\"id\": %s, \"label\": %s}\n", idJSON(q.id), label)
		}
	}
	return b.Flush()
}

// idJSON is an id as a number where it is one.
func idJSON(id string) string {
	if n, err := strconv.Atoi(id); err == nil && strconv.Itoa(n) == id {
		return id
	}
	return quoted(id)
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic("tasks: text can't be written as JSON")
	}
	return string(out)
}

// ReadPredictions reads what Save writes, or what other programs wrote in the same format.
func ReadPredictions(t *Task, path string) (*Predictions, error) {
	text, err := bounded.ReadFile(path, 4*bounded.GiB)
	if err != nil {
		return nil, fmt.Errorf("predictions: %w", err)
	}
	p, line, err := parsePredictions(t, bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return nil, fmt.Errorf("predictions %s: %w: %w", Place{path, line}, err, ErrInvalid)
	}
	return p, nil
}

func parsePredictions(t *Task, text []byte) (p *Predictions, line int, err error) {
	p = &Predictions{Task: t, by: map[string]int{}}
	if t.Kind == bert.TokenClassification {
		return p, line, p.parseTags(string(text), &line)
	}
	if start := bytes.TrimSpace(text); len(start) > 0 && start[0] == '{' {
		return p, line, p.parseJSON(text, &line)
	}
	for i, l := range strings.Split(string(text), "\n") {
		line = i + 1
		if l = strings.TrimSuffix(l, "\r"); l == "" {
			continue
		}
		cells := strings.Split(l, "\t")
		if len(cells) != 2 {
			return p, line, fmt.Errorf("%d columns, want index and prediction with a tab between them", len(cells))
		}
		if i == 0 && strings.EqualFold(cells[0], "index") {
			continue
		}
		if err := p.parse(cells[0], cells[1]); err != nil {
			return p, line, err
		}
	}
	return p, 0, nil
}

// parseJSON reads lines of objects with id and label, or ChID's one object with labels by id.
func (p *Predictions) parseJSON(text []byte, line *int) error {
	var all map[string]json.RawMessage
	if p.Task.Name == "chid" && json.Unmarshal(text, &all) == nil {
		for _, id := range slices.Sorted(maps.Keys(all)) {
			label, ok, err := textOf(all, id)
			if err != nil || !ok {
				return errors.Join(err, missing(ok, id))
			}
			if err := p.parse(id, label); err != nil {
				return err
			}
		}
		return nil
	}
	r := reader{Data: &Data{Task: p.Task}}
	err := r.objects(text, func(fields map[string]json.RawMessage) error {
		id, ok, err := textOf(fields, "id", "idx", "index")
		if err != nil || !ok {
			return errors.Join(err, missing(ok, "id"))
		}
		label, ok, err := textOf(fields, "label", "prediction", "answer")
		if err != nil || !ok {
			return errors.Join(err, missing(ok, "label"))
		}
		return p.parse(id, label)
	})
	*line = r.line
	return err
}

func (p *Predictions) parse(id, text string) error {
	if _, ok := p.by[id]; ok {
		return fmt.Errorf("example %s has two predictions", id)
	}
	q := prediction{id: id}
	var err error
	switch t := p.Task; {
	case t.Regression():
		q.value, err = strconv.ParseFloat(text, 64)
	case t.Kind == bert.MultipleChoice:
		if q.label, err = strconv.Atoi(text); err == nil && (q.label < 0 || q.label >= t.Choices) {
			err = fmt.Errorf("the choice is %d, want 0 to %d", q.label, t.Choices-1)
		}
	default:
		if q.label = slices.Index(t.Labels, text); q.label < 0 {
			err = fmt.Errorf("the label is %q, want one of %s", text, few(t.Labels))
		}
	}
	if err != nil {
		return fmt.Errorf("example %s: %w", id, err)
	}
	p.add(q)
	return nil
}
