package evaluation

import (
	"errors"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/dataset/tasks"
)

// Question is a question about a passage.
type Question struct {
	Passage  string `json:"passage"`
	Question string `json:"question"`
}

// Check is an error if one of the two is empty.
func (q Question) Check() error {
	if strings.TrimSpace(q.Question) == "" || strings.TrimSpace(q.Passage) == "" {
		return errors.New("a question and a passage are wanted, and one of them is empty")
	}
	return nil
}

// Answer is a part of the passage, or nothing where the task has questions without an answer.
type Answer struct {
	Answer string `json:"answer"`
	// Probability is the answer's among the n best.
	Probability float64 `json:"probability"`
}

// Ask makes data of questions, for a task of question answering.
func Ask(t *tasks.Task, questions []Question) (*Data, error) {
	if t.Kind != bert.QuestionAnswering {
		return nil, errors.New("task " + t.Name + " has no questions about passages")
	}
	d := &squad.Data{Name: "questions"}
	for i, q := range questions {
		if err := q.Check(); err != nil {
			return nil, err
		}
		d.Articles = append(d.Articles, squad.Article{Paragraphs: []squad.Paragraph{{
			Context: q.Passage, Questions: []squad.Question{{Text: q.Question, ID: strconv.Itoa(i)}},
		}}})
	}
	return &Data{Task: t, passages: d}, nil
}

// Answers are a model's answers to the questions of Ask, in their order. nullThreshold is by how much no answer must
// score higher than the best one to be given.
func (p *Predictions) Answers(nullThreshold float64) []Answer {
	list := make([]Answer, len(p.spans))
	for i, s := range p.spans {
		a := Answer{Answer: s.Text()}
		if p.Task.Impossible && s.NullOdds > nullThreshold {
			a.Answer = ""
		}
		for _, c := range s.NBest {
			if c.Text == a.Answer {
				a.Probability = c.Probability
				break
			}
		}
		list[i] = a
	}
	return list
}
