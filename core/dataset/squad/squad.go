// Package squad turns questions about passages, in the JSON format of the Stanford Question Answering Dataset, into
// batches, and a model's logits into answers: those of SQuAD v1.1, of v2.0, whose questions may have none, and of
// the Chinese CMRC 2018 and DRCD, which have the same format.
//
//	Read -> Data -> NewSet -> Set -> Source (training), Batches (evaluation) -> Decoder -> Predictions
//
// Each stage does what google-research/bert does: windows over long passages, answer spans narrowed to tokens,
// n-best lists, answers projected back onto the passage's own spelling.
//
// Sources: Rajpurkar, Zhang, Lopyrev, Liang 2016 (arXiv:1606.05250); Rajpurkar, Jia, Liang 2018 (arXiv:1806.03822);
// google-research/bert, run_squad.py; Cui et al. 2019 (arXiv:1810.07366) and Shao et al. 2018 (arXiv:1806.00920).
package squad

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// ErrInvalid is wrapped by every error about the content of a file.
var ErrInvalid = errors.New("invalid SQuAD file")

// Data is a file. Its JSON form is the file's.
type Data struct {
	Articles []Article `json:"data"`
	Version  string    `json:"version"`

	Name   string `json:"-"` // of the file, for errors
	Digest string `json:"-"` // SHA-256 of the file in hexadecimal
}

// Article is a group of passages.
type Article struct {
	Title      string      `json:"title"`
	Paragraphs []Paragraph `json:"paragraphs"`
}

// Paragraph is a passage and the questions about it.
type Paragraph struct {
	Context   string     `json:"context"`
	Questions []Question `json:"qas"`
}

// Question is a question with the answers that people gave: one in training data, several in others, none where
// they are not published.
type Question struct {
	Answers []Answer `json:"answers"`
	Text    string   `json:"question"`
	ID      string   `json:"id"`
	// Impossible says that the passage has no answer; SQuAD v2.0 only.
	Impossible bool `json:"is_impossible,omitempty"`

	Place Place `json:"-"`
}

// Answer is a part of the passage.
type Answer struct {
	Start int    `json:"answer_start"` // in characters (Unicode code points) of the passage
	Text  string `json:"text"`
}

// Place is where something is in a file: line and column count from 1, columns in bytes. The zero Place is nowhere.
type Place struct{ Line, Column int }

// at names a question and where it is.
func (d *Data) at(q *Question) string {
	if q.Place.Line == 0 {
		return fmt.Sprintf("squad %s: question %s", d.Name, q.ID)
	}
	return fmt.Sprintf("squad %s:%d:%d: question %s", d.Name, q.Place.Line, q.Place.Column, q.ID)
}

// Questions returns the number of questions.
func (d *Data) Questions() int {
	n := 0
	for range d.all() {
		n++
	}
	return n
}

// all are the questions in their order.
func (d *Data) all() iter.Seq[*Question] {
	return func(yield func(*Question) bool) {
		for i := range d.Articles {
			for j := range d.Articles[i].Paragraphs {
				for k := range d.Articles[i].Paragraphs[j].Questions {
					if !yield(&d.Articles[i].Paragraphs[j].Questions[k]) {
						return
					}
				}
			}
		}
	}
}

// WriteTo writes the data as a SQuAD file.
func (d *Data) WriteTo(w io.Writer) (int64, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(append(text, '\n'))
	return int64(n), err
}
