package evaluation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/score"
)

// Official are numbers by name, in an order.
type Official []Number

// Number is a number with its name.
type Number struct {
	Name  string
	Value float64
}

func (o *Official) add(name string, value float64) { *o = append(*o, Number{name, value}) }

// MarshalJSON writes an object in the order of the numbers. One that is not defined is null.
func (o Official) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, n := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(n.Name)
		if err != nil {
			return nil, err
		}
		value := []byte("null")
		if !math.IsNaN(n.Value) && !math.IsInf(n.Value, 0) {
			if value, err = json.Marshal(n.Value); err != nil {
				return nil, err
			}
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Score marks a file of predictions. odds is a file with the odds of no answer by question, for SQuAD v2.0 alone, or empty; threshold is that above which
// they decide.
func (d *Data) Score(predictions, odds string, threshold float64) (*Marks, error) {
	a := &Answers{Task: d.Task}
	var err error
	if d.Task.Kind != bert.QuestionAnswering {
		if a.labels, err = tasks.ReadPredictions(d.Task, predictions); err != nil {
			return nil, err
		}
		return d.Mark(a)
	}
	a.texts = make(map[string]string)
	if err := readObject(predictions, func(id string, value json.RawMessage) error {
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return errors.New("want a text")
		}
		a.texts[id] = text
		return nil
	}); err != nil {
		return nil, fmt.Errorf("predictions %s: want a JSON object of answers by question: %w", predictions, err)
	}
	if odds != "" {
		if !d.Task.Impossible {
			return nil, fmt.Errorf("odds of no answer are for squad2, not for %s", d.Task.Name)
		}
		if err := readObject(odds, func(id string, value json.RawMessage) error {
			var v float64
			if err := json.Unmarshal(value, &v); err != nil {
				return errors.New("want a number")
			}
			a.odds = append(a.odds, score.Odds{ID: id, Value: v})
			return nil
		}); err != nil {
			return nil, fmt.Errorf("odds %s: want a JSON object of numbers by question: %w", odds, err)
		}
	}
	return d.mark(a, threshold, true)
}

// readObject reads the members of a JSON object in their order.
func readObject(path string, member func(key string, value json.RawMessage) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return fmt.Errorf("it begins with %v", t)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := member(key.(string), value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	_, err = d.Token()
	return err
}
