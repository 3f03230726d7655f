package tasks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/score"
	"harness.invalid/core/wordpiece"
)

// entities reads named entities: a word and its tag a line, with a blank line between sentences (CoNLL's form), or
// CLUENER's lines of {"text": ..., "label": {TYPE: {TEXT: [[FIRST, LAST]]}}}, in which every character is a word.
func entities(r *reader, text []byte) error {
	var err error
	if first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); first[0] == '{' && json.Valid([]byte(first)) {
		err = r.objects(text, r.spans)
	} else {
		err = r.conll(string(text))
	}
	if err == nil && len(r.Examples) == 0 {
		err = errors.New("no sentence")
	}
	return err
}

// conll reads sentences in CoNLL's form. The first column is the word and the last one its tag; files to predict may
// have words alone.
func (r *reader) conll(text string) error {
	return conllLines(text, &r.line, func(lines [][]string, first int) error {
		e := Example{ID: strconv.Itoa(r.rows), Label: -1, Place: Place{r.path, first}}
		for _, cells := range lines {
			e.Words = append(e.Words, cells[0])
			if len(cells) > 1 {
				e.Tags, e.Label = append(e.Tags, cells[len(cells)-1]), 0
			}
		}
		if n := len(e.Tags); n > 0 && n < len(e.Words) {
			return fmt.Errorf("the sentence has %d words and %d tags", len(e.Words), n)
		}
		r.rows++
		return r.sentence(e)
	})
}

// conllLines calls body with the cells of the lines of each sentence and the number of the first of them. Columns are
// separated by tabs, or by spaces where a line has no tab. CoNLL-2003's -DOCSTART- is no sentence.
func conllLines(text string, line *int, body func(lines [][]string, first int) error) error {
	var lines [][]string
	first := 0
	end := func() error {
		if len(lines) == 0 || len(lines) == 1 && lines[0][0] == "-DOCSTART-" {
			lines = nil
			return nil
		}
		err := body(lines, first)
		lines = nil
		return err
	}
	for i, l := range strings.Split(text, "\n") {
		*line = i + 1
		l = strings.TrimSuffix(l, "\r")
		if strings.TrimSpace(l) == "" {
			if err := end(); err != nil {
				return err
			}
			continue
		}
		cells := strings.Split(l, "\t")
		if len(cells) == 1 {
			cells = strings.FieldsFunc(l, func(c rune) bool { return c == ' ' })
		}
		if cells[len(cells)-1] == "" {
			return errors.New("the last column, the tag, is empty")
		}
		if len(lines) == 0 {
			first = i + 1
		}
		lines = append(lines, cells)
	}
	return end()
}

// spans reads a line of CLUENER. Its entities are from the first to the last character, from 0. Of entities that
// overlap the one that begins first counts, and of those the longest: a character has one tag.
func (r *reader) spans(fields map[string]json.RawMessage) error {
	text, ok, err := textOf(fields, "text")
	if err != nil || !ok {
		return errors.Join(err, missing(ok, "text"))
	}
	id, _, err := textOf(fields, "id")
	if err != nil {
		return err
	}
	e := Example{ID: cmp.Or(id, strconv.Itoa(r.rows)), Label: -1, Place: Place{r.path, r.line}, Words: strings.Split(text, "")}
	r.rows++
	raw, labelled := fields["label"]
	if !labelled {
		return r.sentence(e)
	}
	var label map[string]map[string][][2]int
	if err := valueOf(raw, &label); err != nil {
		return fmt.Errorf("label: want entities by type and text, each a list of [first, last]: %w", err)
	}
	type span struct {
		first, last int
		kind        string
	}
	var all []span
	for _, kind := range slices.Sorted(maps.Keys(label)) {
		for text, places := range label[kind] {
			for _, p := range places {
				if p[0] < 0 || p[1] < p[0] || p[1] >= len(e.Words) || strings.Join(e.Words[p[0]:p[1]+1], "") != text {
					return fmt.Errorf("%s %q is said to be at characters %d to %d of %d, where it is not", kind, text, p[0], p[1], len(e.Words))
				}
				all = append(all, span{p[0], p[1], kind})
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last), cmp.Compare(a.kind, b.kind))
	})
	e.Tags, e.Label = slices.Repeat([]string{outside}, len(e.Words)), 0
	end := 0
	for _, s := range all {
		if s.first < end {
			continue
		}
		for i := s.first; i <= s.last; i++ {
			e.Tags[i] = "I-" + s.kind
		}
		e.Tags[s.first], end = "B-"+s.kind, s.last+1
	}
	return r.sentence(e)
}

// outside is the tag of words that are in no entity.
const outside = "O"

// sentence adds a sentence.
func (r *reader) sentence(e Example) error {
	if len(e.Words) == 0 {
		return errors.New("the text is empty")
	}
	for _, w := range e.Words {
		if len(w) > maxText {
			return fmt.Errorf("a word of %d bytes, want at most %d", len(w), maxText)
		}
	}
	r.Examples = append(r.Examples, e)
	return nil
}

// tags are the tags of all sentences.
func (d *Data) tags() [][]string {
	all := make([][]string, len(d.Examples))
	for i := range d.Examples {
		all[i] = d.Examples[i].Tags
	}
	return all
}

// Labels are the labels that a task has in these data, sorted: for a task whose labels its data decide on, those that
// occur; for all others the task's own.
func (d *Data) Labels() []string {
	if !d.Task.Open {
		return d.Task.Labels
	}
	seen := map[string]bool{}
	for _, tags := range d.tags() {
		for _, t := range tags {
			seen[t] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Entities measures predicted tags against those of the data, see score.Entities. Sentences and words must
// be the same, in the same order.
func (d *Data) Entities(p *Predictions) (score.EntityScores, error) {
	if len(p.list) != len(d.Examples) {
		return score.EntityScores{}, fmt.Errorf("task %s: predictions for %d sentences, and %s has %d", d.Task.Name, len(p.list), d.Name,
			len(d.Examples))
	}
	said := make([][]string, len(d.Examples))
	for i, e := range d.Examples {
		q := &p.list[i]
		if said[i] = q.tags; len(q.tags) != len(e.Words) {
			return score.EntityScores{}, fmt.Errorf("task %s: sentence %s (%s) has %d words, its prediction %d tags", d.Task.Name, e.ID, e.Place,
				len(e.Words), len(q.tags))
		}
	}
	s, err := score.Entities(said, d.tags())
	if err != nil {
		return s, fmt.Errorf("task %s: %w", d.Task.Name, err)
	}
	return s, nil
}

// predictTags derives the tags of sentences from the logits of their tokens [sequences, S, labels].
func (s *Set) predictTags(logits []float32) *Predictions {
	t := s.Data.Task
	p := &Predictions{Task: t, by: map[string]int{}}
	for i := range s.Data.Examples {
		e := &s.Data.Examples[i]
		p.add(prediction{id: e.ID, words: e.Words, tags: slices.Repeat([]string{outside}, len(e.Words))})
	}
	width := len(t.Labels)
	for i := range s.sequences {
		q := &s.sequences[i]
		for j, at := range q.words {
			if at == noPiece {
				continue
			}
			row := logits[(i*s.MaxLength+int(at))*width:][:width]
			p.list[q.example].tags[q.first+j] = t.Labels[greatest(row)]
		}
	}
	return p
}

// addSentence makes the sequences of a sentence: its words in as many windows as they need, each word whole. A word
// that is longer than a window is cut.
func (s *Set) addSentence(t *wordpiece.Tokenizer, special map[string]int32, example int) {
	words := s.Data.Examples[example].Words
	q := sequence{ids: []int32{special[wordpiece.Cls]}, example: example}
	end := func(next int) {
		q.ids = append(q.ids, special[wordpiece.Sep])
		q.second = len(q.ids)
		s.sequences = append(s.sequences, q)
		q = sequence{ids: []int32{special[wordpiece.Cls]}, example: example, first: next}
	}
	for i, word := range words {
		pieces := t.AppendIDs(nil, word)
		pieces = pieces[:min(len(pieces), s.MaxLength-2)]
		if len(q.ids)+len(pieces)+1 > s.MaxLength {
			end(i)
		}
		at := int32(len(q.ids))
		if len(pieces) == 0 {
			at = noPiece
		}
		q.words, q.ids = append(q.words, at), append(q.ids, pieces...)
	}
	end(len(words))
}

// unknown is a tag that is none of the task's labels; "": there is none.
func (s *Set) unknown() string {
	if s.Data.Task.Kind != bert.TokenClassification {
		return ""
	}
	for _, tags := range s.Data.tags() {
		if i := slices.Index(s.Data.Task.numbers(tags), bert.Unlabelled); i >= 0 {
			return tags[i]
		}
	}
	return ""
}

// noPiece is the place of a word that the tokenizer drops, such as a space. It is in no entity.
const noPiece = -1

// labelTokens gives the first pieces of the words of some sequences their labels.
func (s *Set) labelTokens(b *bert.Batch, which []int32) {
	b.Labels = slices.Repeat([]int32{bert.Unlabelled}, b.Size*b.Length)
	for row, i := range which {
		q := &s.sequences[i]
		for j, label := range s.Data.Task.numbers(s.Data.Examples[q.example].Tags[q.first:][:len(q.words)]) {
			if at := q.words[j]; at != noPiece {
				b.Labels[row*b.Length+int(at)] = label
			}
		}
	}
}

// entityFloors are the best scores of one tag for all words, and the entropy of the tags.
func (d *Data) entityFloors() (scores map[string]float64, loss float64, err error) {
	count, words := map[string]int{outside: 0}, 0
	for _, tags := range d.tags() {
		for _, tag := range tags {
			count[tag]++
			words++
		}
	}
	scores = map[string]float64{}
	for _, tag := range slices.Sorted(maps.Keys(count)) {
		p := &Predictions{Task: d.Task, by: map[string]int{}}
		for _, e := range d.Examples {
			p.add(prediction{id: e.ID, tags: slices.Repeat([]string{tag}, len(e.Words))})
		}
		of, err := d.Score(p)
		if err != nil {
			return nil, 0, err
		}
		for m, v := range of {
			scores[m] = max(scores[m], v)
		}
		if share := float64(count[tag]) / float64(words); share > 0 {
			loss -= share * math.Log(share)
		}
	}
	return scores, loss, nil
}

// parseTags reads the predicted tags of sentences: a tag a line, or CoNLL's form.
func (p *Predictions) parseTags(text string, line *int) error {
	return conllLines(text, line, func(lines [][]string, _ int) error {
		q := prediction{id: strconv.Itoa(len(p.list))}
		for _, cells := range lines {
			q.tags = append(q.tags, cells[len(cells)-1])
			if len(cells) > 1 {
				q.words = append(q.words, cells[0])
			}
		}
		p.add(q)
		return nil
	})
}

// numbers are the labels of tags; bert.Unlabelled where the task lacks one, as no model can predict it.
func (t *Task) numbers(tags []string) []int32 {
	list := make([]int32, len(tags))
	for i, tag := range tags {
		if list[i] = int32(slices.Index(t.Labels, tag)); list[i] < 0 {
			list[i] = bert.Unlabelled
		}
	}
	return list
}
