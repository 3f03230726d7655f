package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"harness.invalid/core/bounded"
)

// Examples are values by example: IDs, in ascending order, and a value for each. Those of many runs share their IDs.
type Examples[T any] struct {
	IDs    []string
	Values []T
}

// At is the value of an example, and whether there is one. place is where it is looked for first.
func (e Examples[T]) At(id string, place int) (value T, ok bool) {
	if place >= len(e.IDs) || e.IDs[place] != id {
		if place, ok = slices.BinarySearch(e.IDs, id); !ok {
			return value, false
		}
	}
	return e.Values[place], true
}

// Scores are the scores of single examples, by metric. The metric is their mean.
type Scores map[string]Examples[float64]

// ScoresFile is the file in a run's folder that has the scores of a phase.
func ScoresFile(phase string) string { return phase + ".scores.json" }

// Scores reads the scores of single examples of a phase; nil if the run kept none. What they have in common with the
// scores of another run, like, they share with it.
func (r *Run) Scores(phase string, like Scores) (Scores, error) {
	text, err := r.readExamples(ScoresFile(phase))
	if text == nil || err != nil {
		return nil, err
	}
	s := Scores{}
	d := stepDecoder{line: text}
	if d.object(func(metric []byte) bool {
		e, ok := readExamples(&d, like[string(metric)], func(float64) (float64, bool) { return d.finite() })
		s[string(metric)] = e
		return ok
	}) && d.ended() {
		return s, nil
	}
	var slow map[string]map[string]float64
	if err := json.Unmarshal(text, &slow); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", r.Title(), ScoresFile(phase), err)
	}
	s = Scores{}
	for metric, by := range slow {
		s[metric] = sortExamples(by)
	}
	return s, nil
}

// PredictionsFile is the file in a run's folder that has the answers to the questions of a phase.
func PredictionsFile(phase string) string { return phase + ".predictions.json" }

// Answers reads the answers to the questions of a phase; without any if the run kept none. What they have in common with
// those of another run, like, they share with it.
func (r *Run) Answers(phase string, like Examples[string]) (Examples[string], error) {
	text, err := r.readExamples(PredictionsFile(phase))
	if text == nil || err != nil {
		return Examples[string]{}, err
	}
	d := stepDecoder{line: text}
	if e, ok := readExamples(&d, like, d.words); ok && d.ended() {
		return e, nil
	}
	var slow map[string]string
	if err := json.Unmarshal(text, &slow); err != nil {
		return Examples[string]{}, fmt.Errorf("%s: %s: %w", r.Title(), PredictionsFile(phase), err)
	}
	return sortExamples(slow), nil
}

// readExamples reads a file that may be missing, and is nil then.
func (r *Run) readExamples(name string) ([]byte, error) {
	text, err := bounded.ReadFileIn(r.Dir, name, mostScores)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Title(), err)
	}
	return text, nil
}

func sortExamples[T any](by map[string]T) Examples[T] {
	e := Examples[T]{IDs: slices.Sorted(maps.Keys(by))}
	for _, id := range e.IDs {
		e.Values = append(e.Values, by[id])
	}
	return e
}

// readExamples reads an object with its keys in order, and false where they are not. value reads one; it is given the
// value in the same place of like.
func readExamples[T any](d *stepDecoder, like Examples[T], value func(like T) (T, bool)) (Examples[T], bool) {
	e := Examples[T]{Values: make([]T, 0, len(like.Values))}
	shared := true
	ok := d.object(func(key []byte) bool {
		n := len(e.IDs)
		if n > 0 && e.IDs[n-1] >= string(key) {
			return false
		}
		var near T
		if n < len(like.Values) {
			near = like.Values[n]
		}
		if shared = shared && n < len(like.IDs) && like.IDs[n] == string(key); shared {
			e.IDs = like.IDs[: n+1 : n+1] // to append to it copies it
		} else {
			e.IDs = append(e.IDs, string(key))
		}
		v, ok := value(near)
		e.Values = append(e.Values, v)
		return ok
	})
	return e, ok
}
