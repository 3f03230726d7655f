package evaluation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/score"
)

// Predictions are what a model predicts for the examples of a task.
type Predictions struct {
	Task *tasks.Task
	// Loss is the mean over the examples if they have labels, else 0.
	Loss float64
	// AnswerNLL is the mean negative log-likelihood of the answers (squad.Decoder.Likelihood); nil: not known.
	AnswerNLL *float64

	// Question answering has spans from a model, or texts and perhaps odds from files. All other tasks have labels.
	spans  squad.Predictions
	texts  map[string]string // answers by question
	odds   []score.Odds      // that a question has no answer
	labels *tasks.Predictions
}

// Files are the names of the files that Save writes for a task. The first is the one that the official script reads.
func Files(t *tasks.Task) []string {
	if t.Kind != bert.QuestionAnswering {
		return []string{"predictions" + t.Extension()}
	}
	names := []string{"predictions.json", "nbest_predictions.json"}
	if t.Impossible {
		names = append(names, "null_odds.json")
	}
	return names
}

// Save writes the predictions of a model in the formats of the task's official script. path maps a name of Files to
// a path.
func (p *Predictions) Save(path func(name string) string) error {
	names := Files(p.Task)
	if p.labels != nil {
		return p.labels.Save(path(names[0]))
	}
	for i, save := range []func(string) error{p.spans.Save, p.spans.SaveNBest, p.spans.SaveNullOdds} {
		if i < len(names) {
			if err := save(path(names[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// answers are the predicted texts by question.
func (p *Predictions) answers() map[string]string {
	if p.texts != nil {
		return p.texts
	}
	return p.spans.Answers()
}

// nullOdds are the odds that a question has no answer, in the order of the questions; nil if a file of predictions
// came without them.
func (p *Predictions) nullOdds() []score.Odds {
	if p.spans == nil {
		return p.odds
	}
	odds := make([]score.Odds, len(p.spans))
	for i, s := range p.spans {
		odds[i] = score.Odds{ID: s.ID, Value: s.NullOdds}
	}
	return odds
}

// readPredictions reads a file of predictions, and the file with the odds of no answer unless its name is empty.
func readPredictions(t *tasks.Task, predictions, odds string) (*Predictions, error) {
	p := &Predictions{Task: t}
	if t.Kind != bert.QuestionAnswering {
		var err error
		p.labels, err = tasks.ReadPredictions(t, predictions)
		return p, err
	}
	p.texts = make(map[string]string)
	if err := readObject(predictions, func(id string, value json.RawMessage) error {
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return errors.New("want a string")
		}
		p.texts[id] = text
		return nil
	}); err != nil {
		return nil, fmt.Errorf("predictions %s: want a JSON object of answers by question: %w", predictions, err)
	}
	if odds == "" {
		return p, nil
	}
	if !t.Impossible {
		return nil, fmt.Errorf("odds of no answer are for squad2, not for %s", t.Name)
	}
	if err := readObject(odds, func(id string, value json.RawMessage) error {
		var v float64
		if err := json.Unmarshal(value, &v); err != nil {
			return errors.New("want a number")
		}
		p.odds = append(p.odds, score.Odds{ID: id, Value: v})
		return nil
	}); err != nil {
		return nil, fmt.Errorf("odds %s: want a JSON object of numbers by question: %w", odds, err)
	}
	return p, nil
}

// readObject reads the members of a JSON object in the order of the file.
func readObject(path string, member func(key string, value json.RawMessage) error) error {
	text, err := bounded.ReadFile(path, 4*bounded.GiB)
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
