package tasks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
)

// ErrInvalid is wrapped by every error about the content of a file.
var ErrInvalid = errors.New("invalid data")

// Data are the examples of one or more files.
type Data struct {
	Task     *Task
	Examples []Example
	// Skipped are lines that the published programs leave out too: those without an agreed label, and truncated
	// ones.
	Skipped []Place
	Name    string // of the files, for errors
	Digest  string // SHA-256 of the files in hexadecimal

	beside [][sha256.Size]byte // sums of separate files with answers, which are part of the digest
}

// Example is a sentence, a pair, or a question with its choices.
type Example struct {
	// ID is the example's own, or its number in the file from 0, by which benchmarks expect predictions.
	ID string
	// Choices are the model's inputs, each a list of segments: the first of type 0, the others of type 1. A
	// multiple choice has as many as the task, all other tasks one.
	Choices [][]string
	// Words and Tags are those of a sentence with named entities, which has no Choices. No Tags: they are not known.
	Words, Tags []string
	// Label is a number of Task.Labels or a choice, 0 where there are Tags, -1 where none is published; Target is that of a regression.
	Label  int
	Target float32
	Place  Place
}

// Place is the position of an example.
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

// format describes the files of a task.
type format struct {
	a, b, label []string // names of columns or keys, the first that is there counts; no b: single sentences
	bare        []bare   // files without a header
	skipLabel   string   // examples that people did not agree on
	skipShort   bool     // lines with too few columns are skipped, as in the published programs
	// record makes an example from a JSON object if that takes more than a and b.
	record func(fields map[string]json.RawMessage) ([]string, error)
	// file reads a format of its own.
	file func(r *reader, text []byte) error
}

// maxText limits the text of an example, in bytes. A longer one indicates another kind of file.
const maxText = 1 << 20

// Read reads the files of a task as one. Every error about their content names file and line.
func Read(t *Task, paths ...string) (*Data, error) {
	if t.Kind == bert.QuestionAnswering {
		return nil, fmt.Errorf("task %s: its files are SQuAD's", t.Name)
	}
	d := &Data{Task: t, Name: strings.Join(paths, ", ")}
	sum := sha256.New()
	for _, path := range paths {
		text, err := bounded.ReadFile(path, 4*bounded.GiB)
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

// number renumbers all examples if an id occurs twice, as in several files.
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
	rows int // of the file so far, including skipped ones
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

// add adds an example with its label as written in the file; known says whether there is one.
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

// few shows a list, abbreviated if it is long.
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
