package score

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// EntityScore is how well predicted named entities agree with the annotated ones, as fractions. An entity is right if
// its type, its first and its last word are.
type EntityScore struct {
	Precision float64 // share of the predicted entities that are right; 0 where none is predicted
	Recall    float64 // share of the annotated entities that are predicted; 0 where there is none
	F1        float64 // their harmonic mean
	Accuracy  float64 // share of the words whose tags are equal
	Support   int     // annotated entities
}

// EntityScores are an EntityScore over all types and, without Accuracy, for each type that is annotated or predicted.
type EntityScores struct {
	EntityScore
	ByType map[string]EntityScore
}

// Entities scores the tags of sentences, a tag a word: B-person, I-person, O and, in BIOES, E-person and S-person.
// Sentences and words must be those of labels. The numbers are those of seqeval's classification_report and
// accuracy_score in their default mode. Source: chakki-works/seqeval, metrics/sequence_labeling.py.
func Entities(predictions, labels [][]string) (EntityScores, error) {
	if err := paired("entities", len(predictions), len(labels)); err != nil {
		return EntityScores{}, err
	}
	words, right := 0, 0
	for i, tags := range labels {
		if len(predictions[i]) != len(tags) {
			return EntityScores{}, fmt.Errorf("sentence %d: %d predicted tags for %d words", i+1, len(predictions[i]), len(tags))
		}
		words += len(tags)
		for j, tag := range tags {
			if tag == predictions[i][j] {
				right++
			}
		}
	}
	if words == 0 {
		return EntityScores{}, fmt.Errorf("entities: no word: %w", ErrNone)
	}
	var all entityCount
	types := map[string]*entityCount{}
	of := func(kind string) *entityCount {
		if types[kind] == nil {
			types[kind] = &entityCount{}
		}
		return types[kind]
	}
	there := map[entity]bool{}
	for _, e := range entities(labels) {
		there[e] = true
		all.there++
		of(e.kind).there++
	}
	for _, e := range entities(predictions) {
		all.predicted++
		of(e.kind).predicted++
		if there[e] {
			all.right++
			of(e.kind).right++
		}
	}
	s := EntityScores{EntityScore: all.score(), ByType: map[string]EntityScore{}}
	s.Accuracy = float64(right) / float64(words)
	for kind, count := range types {
		s.ByType[kind] = count.score()
	}
	return s, nil
}

// entity is a run of words, counted over all sentences.
type entity struct {
	kind        string
	first, last int
}

type entityCount struct{ there, predicted, right int }

func (c entityCount) score() EntityScore {
	s := EntityScore{Support: c.there}
	if c.right > 0 {
		s.Precision = float64(c.right) / float64(c.predicted)
		s.Recall = float64(c.right) / float64(c.there)
		s.F1 = 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
	}
	return s
}

// entities finds the entities of sentences. An I that follows no entity of its type begins one, and so does an E: any
// sequence of tags has entities.
func entities(sentences [][]string) []entity {
	var found []entity
	before, of := 'O', "" // tag and type of the word before
	first, at := 0, 0
	word := func(tag rune, kind string) {
		if closes(before, tag, of == kind) {
			found = append(found, entity{of, first, at - 1})
		}
		if opens(before, tag, of == kind) {
			first = at
		}
		before, of = tag, kind
		at++
	}
	for _, tags := range sentences {
		for _, tag := range tags {
			word(splitTag(tag))
		}
		word(splitTag("O")) // no entity goes beyond its sentence
	}
	return found
}

// closes reports whether an entity ends before a word; same: the type is that of the word before.
func closes(before, tag rune, same bool) bool {
	switch before {
	case 'O':
		return false
	case 'E', 'S':
		return true
	case 'B', 'I':
		return !same || tag == 'B' || tag == 'S' || tag == 'O'
	}
	return !same && before != '.'
}

// opens reports whether an entity begins with a word.
func opens(before, tag rune, same bool) bool {
	switch tag {
	case 'O', '.':
		return false
	case 'B', 'S':
		return true
	case 'E', 'I':
		return !same || before == 'E' || before == 'S' || before == 'O'
	}
	return !same
}

// splitTag cuts B-person into B and person. Without a dash the type is what follows the first letter, and _ if nothing
// does.
func splitTag(tag string) (letter rune, kind string) {
	letter, size := utf8.DecodeRuneInString(tag)
	kind = tag[size:]
	if _, after, ok := strings.Cut(kind, "-"); ok {
		kind = after
	}
	if kind == "" {
		kind = "_"
	}
	return letter, kind
}
