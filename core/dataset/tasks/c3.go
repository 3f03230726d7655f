package tasks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// noAnswer pads the choices of a question that has fewer than the task. Source: CLUE's baseline for C3 (run_c3.py).
const noAnswer = "无效答案"

// c3 reads C3: a list of [texts, questions, id]. A choice reads text, question, answer.
func c3(r *reader, text []byte) error {
	var documents []json.RawMessage
	if err := valueOf(text, &documents); err != nil {
		return fmt.Errorf("want a list of [texts, questions, id]: %w", err)
	}
	for i, raw := range documents {
		var parts []json.RawMessage
		var texts []string
		var questions []struct {
			Question string
			Choice   []string
			Answer   *string
			ID       *json.Number
		}
		at := func(err error) error { return fmt.Errorf("document %d: %w", i, err) }
		if err := json.Unmarshal(raw, &parts); err != nil || len(parts) < 2 {
			return at(fmt.Errorf("%.40s, want a list of texts, questions and an id", raw))
		}
		if err := valueOf(parts[0], &texts); err != nil {
			return at(fmt.Errorf("texts: %w", err))
		}
		if err := valueOf(parts[1], &questions); err != nil {
			return at(fmt.Errorf("questions: %w", err))
		}
		for _, q := range questions {
			id, label := "", -1
			if q.ID != nil {
				id = q.ID.String()
			}
			if q.Answer != nil {
				if label = slices.Index(q.Choice, *q.Answer); label < 0 {
					return at(fmt.Errorf("the answer %q of question %q is not among its choices", *q.Answer, q.Question))
				}
			}
			if err := r.choose(id, q.Choice, label, func(choice string) []string {
				return []string{strings.Join(texts, "\n"), q.Question, choice}
			}); err != nil {
				return at(fmt.Errorf("question %q: %w", q.Question, err))
			}
		}
	}
	return nil
}

// choose adds a question of multiple choice.
func (r *reader) choose(id string, choices []string, label int, segments func(choice string) []string) error {
	n := r.Task.Choices
	if len(choices) < 2 || len(choices) > n {
		return fmt.Errorf("%d choices, want 2 to %d", len(choices), n)
	}
	e := Example{ID: id, Label: label, Place: Place{r.path, r.line}}
	if id == "" {
		e.ID = strconv.Itoa(r.rows)
	}
	r.rows++
	for i := range n {
		choice := noAnswer
		if i < len(choices) {
			choice = choices[i]
		}
		e.Choices = append(e.Choices, segments(choice))
	}
	r.Examples = append(r.Examples, e)
	return nil
}
