package tasks

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"harness.invalid/core/bert"
	"harness.invalid/core/spelling"
)

// ErrInvalid is wrapped by every error about the content of a file.
var ErrInvalid = errors.New("invalid data")

// Data are the examples of one or more files.
type Data struct {
	Task     *Task
	Examples []Example
	// Skipped are lines that the published programs leave out too: without a label that people agreed on, or cut short.
	Skipped []Place
	Name    string // of the files, for errors
	Digest  string // SHA-256 of the files in hexadecimal

	beside [][sha256.Size]byte // sums of files with answers that lie beside the files, and count with them
}

// Example is a sentence, a pair, or a question with its choices.
type Example struct {
	// ID is the example's own, or its number in the file from 0, which is what benchmarks want predictions to be under.
	ID string
	// Choices are what the model reads: segments, of which the first is of type 0 and the others of type 1. A
	// multiple choice has as many as the task, everything else one.
	Choices [][]string
	// Label is a number of Task.Labels or a choice, -1 where none is published; Target is that of a regression.
	Label  int
	Target float32
	Place  Place
}

// Place is where an example is.
type Place struct {
	File string
	Line int // from 1; 0: the format has no lines
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// format says where the files of a task have what.
type format struct {
	a, b, label []string // names of columns or keys, the first that is there counts; no b: single sentences
	bare        []bare   // files without a header
	skipLabel   string   // examples that people did not agree on
	skipShort   bool     // lines with too few columns are left out, as the published programs do
	// record makes an example of a JSON object, where that takes more than a and b.
	record func(fields map[string]json.RawMessage) ([]string, error)
	// file reads a format of its own.
	file func(r *reader, text []byte) error
}

// bare are the columns, from 0, of files without a header, which are told by the number of columns. b is -1 where
// there is none.
type bare struct{ columns, a, b, label int }

// maxText is the longest text of an example, in bytes: what is longer is another kind of file.
const maxText = 1 << 20

// Read reads the files of a task as one. Every error about their content names file and line.
func Read(t *Task, paths ...string) (*Data, error) {
	if t.Kind == bert.QuestionAnswering {
		return nil, fmt.Errorf("task %s: its files are SQuAD's", t.Name)
	}
	d := &Data{Task: t, Name: strings.Join(paths, ", ")}
	sum := sha256.New()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		fmt.Fprintf(sum, "%x\n", sha256.Sum256(text))
		if err := d.parse(text, path); err != nil {
			return nil, err
		}
	}
	for _, s := range d.beside {
		fmt.Fprintf(sum, "%x\n", s)
	}
	if len(d.Examples) == 0 {
		return nil, fmt.Errorf("task %s: %s: no example: %w", t.Name, d.Name, ErrInvalid)
	}
	d.Digest = hex.EncodeToString(sum.Sum(nil))
	d.number()
	return d, nil
}

// Parse is Read of text that is in memory; name says in errors where it is from.
func Parse(t *Task, text []byte, name string) (*Data, error) {
	if t.Kind == bert.QuestionAnswering {
		return nil, fmt.Errorf("task %s: its files are SQuAD's", t.Name)
	}
	d := &Data{Task: t, Name: name}
	if err := d.parse(text, name); err != nil {
		return nil, err
	}
	d.number()
	return d, nil
}

// number numbers the examples where an id comes twice, as those of several files do.
func (d *Data) number() {
	seen := make(map[string]bool, len(d.Examples))
	for i := range d.Examples {
		if seen[d.Examples[i].ID] {
			for j := range d.Examples {
				d.Examples[j].ID = strconv.Itoa(j)
			}
			return
		}
		seen[d.Examples[i].ID] = true
	}
}

// reader reads one file.
type reader struct {
	*Data
	path string
	line int // that is being read
	rows int // of the file so far, those that are left out among them
}

func (d *Data) parse(text []byte, path string) error {
	r := &reader{Data: d, path: path}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	err := r.file(text)
	if err != nil {
		return fmt.Errorf("task %s: %s: %w: %w", d.Task.Name, Place{path, r.line}, err, ErrInvalid)
	}
	return nil
}

func (r *reader) file(text []byte) error {
	if !utf8.Valid(text) {
		r.line = 1 + bytes.Count(text[:invalid(text)], []byte("\n"))
		return errors.New("the line is not UTF-8")
	}
	start := bytes.TrimLeft(text, " \t\r\n")
	switch f := r.Task.format; {
	case len(start) == 0:
		return errors.New("the file is empty")
	case f.file != nil:
		return f.file(r, text)
	case start[0] == '{':
		return r.objects(text, r.object)
	case start[0] == '[':
		return errors.New("the file is a JSON list, want lines with an object each, or tab-separated values")
	}
	return r.table(string(text))
}

// invalid is the offset of the first byte that is not UTF-8.
func invalid(text []byte) int {
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// add takes an example with its label as the file has it; known tells whether there is one.
func (r *reader) add(id string, choices [][]string, label string, known bool) error {
	number := r.rows
	r.rows++
	e := Example{ID: id, Choices: choices, Label: -1, Place: Place{r.path, r.line}}
	if id == "" {
		e.ID = strconv.Itoa(number)
	}
	for _, segments := range choices {
		for _, s := range segments {
			if len(s) > maxText {
				return fmt.Errorf("a text of %d bytes, want at most %d", len(s), maxText)
			}
		}
	}
	switch t := r.Task; {
	case !known:
	case t.format.skipLabel != "" && label == t.format.skipLabel:
		r.Skipped = append(r.Skipped, e.Place)
		return nil
	case t.Regression():
		v, err := strconv.ParseFloat(label, 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("the label is %q, want a number", label)
		}
		e.Target, e.Label = float32(v), 0
	default:
		if e.Label = slices.Index(t.Labels, label); e.Label < 0 {
			return fmt.Errorf("the label is %q, want one of %s", label, few(t.Labels))
		}
	}
	r.Examples = append(r.Examples, e)
	return nil
}

// few shows a list as far as it is short.
func few(list []string) string {
	if len(list) > 20 {
		return strings.Join(list[:3], ", ") + ", ..., " + list[len(list)-1]
	}
	return strings.Join(list, ", ")
}

// Labelled reports whether every example has a label.
func (d *Data) Labelled() bool {
	return !slices.ContainsFunc(d.Examples, func(e Example) bool { return e.Label < 0 })
}

// table reads tab-separated values. There is no quoting in them, as in the published programs.
func (r *reader) table(text string) error {
	f := &r.Task.format
	at := bare{b: -1, label: -1}
	header := false
	for i, line := range strings.Split(text, "\n") {
		r.line = i + 1
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		cells := strings.Split(line, "\t")
		if at.columns == 0 {
			var err error
			if at, header, err = f.columns(cells); err != nil {
				return err
			}
			if header {
				continue
			}
		}
		if len(cells) <= max(at.a, at.b, at.label) {
			if !f.skipShort {
				return fmt.Errorf("the line has %d columns, want %d", len(cells), at.columns)
			}
			r.Skipped = append(r.Skipped, Place{r.path, r.line})
			r.rows++
			continue
		}
		segments := []string{cells[at.a]}
		if at.b >= 0 {
			segments = append(segments, cells[at.b])
		}
		label, known := "", at.label >= 0
		if known {
			label = cells[at.label]
		}
		if err := r.add("", [][]string{segments}, label, known); err != nil {
			return err
		}
	}
	return nil
}

// columns finds out from the first line where a file has what, and whether that line is a header.
func (f *format) columns(cells []string) (at bare, header bool, err error) {
	find := func(names []string) int {
		for _, name := range names {
			if i := slices.Index(cells, name); i >= 0 {
				return i
			}
		}
		return -1
	}
	at = bare{columns: len(cells), a: find(f.a), b: find(f.b), label: find(f.label)}
	if at.a >= 0 && (at.b >= 0 || f.b == nil) {
		return at, true, nil
	}
	for _, b := range f.bare {
		if b.columns == len(cells) {
			return b, false, nil
		}
	}
	want := strings.Join(f.a, " or ")
	if f.b != nil {
		want += " and " + strings.Join(f.b, " or ")
	}
	want += " (and " + strings.Join(f.label, " or ") + ")"
	hint := ""
	for _, c := range cells {
		if hint == "" && len(c) < 40 {
			hint = spelling.Hint(c, append(slices.Clone(f.a), f.b...))
		}
	}
	return at, false, fmt.Errorf("the first line has %d columns, %s: want a header with %s%s", len(cells), quote(cells), want, hint)
}

// quote shows the beginning of a line.
func quote(cells []string) string {
	text := strings.Join(cells, "|")
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:60]) + "..."
	}
	return strconv.Quote(text)
}

// objects calls read for the JSON object of each line.
func (r *reader) objects(text []byte, read func(fields map[string]json.RawMessage) error) error {
	for i, line := range bytes.Split(text, []byte("\n")) {
		r.line = i + 1
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(line, &fields); err != nil {
			return fmt.Errorf("want a JSON object: %w", err)
		}
		if err := read(fields); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) object(fields map[string]json.RawMessage) error {
	f := &r.Task.format
	var segments []string
	if f.record != nil {
		var err error
		if segments, err = f.record(fields); err != nil {
			return err
		}
	} else {
		for _, names := range [][]string{f.a, f.b} {
			if names == nil {
				continue
			}
			text, ok, err := textOf(fields, names...)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("the object has no key %q", names[0])
			}
			segments = append(segments, text)
		}
	}
	label, known, err := textOf(fields, f.label...)
	if err != nil {
		return err
	}
	id, _, err := textOf(fields, "id", "idx")
	if err != nil {
		return err
	}
	return r.add(id, [][]string{segments}, label, known)
}

// textOf is the value of the first key that is there, as text: that of a string or a number, and of a list of
// strings those with a space between them. null is as good as no value.
func textOf(fields map[string]json.RawMessage, keys ...string) (text string, ok bool, err error) {
	for _, key := range keys {
		raw, ok := fields[key]
		if !ok || string(raw) == "null" {
			continue
		}
		if json.Unmarshal(raw, &text) == nil {
			return text, true, nil
		}
		var number json.Number
		if json.Unmarshal(raw, &number) == nil {
			return number.String(), true, nil
		}
		var truth bool
		if json.Unmarshal(raw, &truth) == nil {
			return strconv.FormatBool(truth), true, nil
		}
		var list []string
		if json.Unmarshal(raw, &list) == nil {
			return strings.Join(list, " "), true, nil
		}
		return "", false, fmt.Errorf("%s is %.40s, want text, a number or a list of texts", key, raw)
	}
	return "", false, nil
}

// winograd marks the noun with underscores and the pronoun with brackets, as CLUE's baseline does
// (classifier_pytorch, WscProcessor).
func winograd(fields map[string]json.RawMessage) ([]string, error) {
	text, ok, err := textOf(fields, "text")
	if err != nil || !ok {
		return nil, errors.Join(err, missing(ok, "text"))
	}
	var target struct {
		Noun    string `json:"span1_text"`
		NounAt  int    `json:"span1_index"`
		Pronoun string `json:"span2_text"`
		At      int    `json:"span2_index"`
	}
	if err := json.Unmarshal(fields["target"], &target); err != nil {
		return nil, fmt.Errorf("target: want an object with span1_text, span1_index, span2_text and span2_index: %w", err)
	}
	runes := []rune(text)
	type mark struct {
		at    int
		begin int // 0: the mark ends a span, and comes before one that begins there
		text  string
	}
	var marks []mark
	for _, s := range []struct {
		text, open, close string
		at                int
	}{{target.Noun, "_", "_", target.NounAt}, {target.Pronoun, "[", "]", target.At}} {
		n := utf8.RuneCountInString(s.text)
		if n == 0 || s.at < 0 || s.at > len(runes)-n {
			return nil, fmt.Errorf("%q is said to be at character %d, but the text has %d", s.text, s.at, len(runes))
		}
		marks = append(marks, mark{s.at, 1, s.open}, mark{s.at + n, 0, s.close})
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Or(a.at-b.at, a.begin-b.begin) })
	var out strings.Builder
	last := 0
	for _, m := range marks {
		out.WriteString(string(runes[last:m.at]))
		out.WriteString(m.text)
		last = m.at
	}
	out.WriteString(string(runes[last:]))
	return []string{out.String()}, nil
}

func missing(ok bool, key string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the object has no key %q", key)
}

// noAnswer fills the choices of a question up that has fewer than the task. Source: CLUE's baseline for C3 (run_c3.py).
const noAnswer = "无效答案"

// c3 reads C3: a list of [texts, questions, id]. A choice reads text, question, answer.
func c3(r *reader, text []byte) error {
	var documents []json.RawMessage
	if err := json.Unmarshal(text, &documents); err != nil {
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
		if err := json.Unmarshal(parts[0], &texts); err != nil {
			return at(fmt.Errorf("texts: %w", err))
		}
		if err := json.Unmarshal(parts[1], &questions); err != nil {
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
