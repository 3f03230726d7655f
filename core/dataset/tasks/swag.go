package tasks

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// swag reads SWAG's CSV, and lines of JSON with the same fields, or with a context, a question and a list of choices.
// A choice is a pair: the context, and the beginning of the next sentence with an ending. Source: transformers,
// examples/pytorch/multiple-choice/run_swag.py.
func swag(r *reader, text []byte) error {
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return r.objects(text, r.question)
	}
	rows := csv.NewReader(bytes.NewReader(text))
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return err
	}
	header = slices.Clone(header)
	at := func(name string) int { return slices.Index(header, name) }
	columns := []int{at("sent1"), at("sent2"), at("ending0"), at("ending1"), at("ending2"), at("ending3")}
	if slices.Contains(columns, -1) {
		return fmt.Errorf("the first line is %s: want a header with sent1, sent2, ending0 to ending3 (and label)", quote(header))
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r.line, _ = rows.FieldPos(0)
		label, known := "", at("label") >= 0
		if known {
			label = row[at("label")]
		}
		var endings []string
		for _, i := range columns[2:] {
			endings = append(endings, row[i])
		}
		if err := r.end("", row[columns[0]], row[columns[1]], endings, label, known && label != ""); err != nil {
			return err
		}
	}
}

// question reads a question from a JSON object.
func (r *reader) question(fields map[string]json.RawMessage) error {
	context, ok, err := textOf(fields, "sent1", "context", "passage", "article", "sentence")
	if err != nil || !ok {
		return errors.Join(err, missing(ok, "sent1"))
	}
	begin, _, err := textOf(fields, "sent2", "question")
	if err != nil {
		return err
	}
	var choices []string
	for _, key := range []string{"choices", "endings", "options"} {
		if raw, ok := fields[key]; ok && choices == nil {
			if err := valueOf(raw, &choices); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	for listed := choices != nil; !listed; {
		ending, ok, err := textOf(fields, fmt.Sprintf("ending%d", len(choices)))
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		choices = append(choices, ending)
	}
	label, known, err := textOf(fields, "label", "answer")
	if err != nil {
		return err
	}
	id, _, err := textOf(fields, "id", "idx")
	if err != nil {
		return err
	}
	return r.end(id, context, begin, choices, label, known)
}

// end adds a question whose choices are endings of a sentence. The label is the number of the right one from 0, the
// letter of it, or its text.
func (r *reader) end(id, context, begin string, endings []string, label string, known bool) error {
	right := -1
	if known {
		if n, err := strconv.Atoi(label); err == nil {
			right = n
		} else if len(label) == 1 && label[0] >= 'A' && label[0] <= 'Z' {
			right = int(label[0] - 'A')
		} else {
			right = slices.Index(endings, label)
		}
		if right < 0 || right >= len(endings) {
			return fmt.Errorf("the label is %.40q, want 0 to %d, or the text of a choice", label, len(endings)-1)
		}
	}
	for _, s := range append([]string{context, begin}, endings...) {
		if len(s) > maxText {
			return fmt.Errorf("a text of %d bytes, want at most %d", len(s), maxText)
		}
	}
	return r.choose(id, endings, right, func(ending string) []string {
		return []string{context, strings.TrimSpace(begin + " " + ending)}
	})
}
