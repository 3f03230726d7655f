package results

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// tagsFile holds the words that people put on a run. The first one creates it.
const tagsFile = "tags.json"

// Tags are the words on the run, sorted.
func (r *Run) Tags() ([]string, error) {
	tags := []string{}
	if err := r.readOptional(tagsFile, mostSummary, &tags); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Title(), err)
	}
	return tags, nil
}

// Tag adds words to the run and removes others.
func (r *Run) Tag(add, remove []string) error {
	for _, t := range add {
		if t == "" || strings.ContainsFunc(t, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == ',' }) {
			return fmt.Errorf("tag %q: want one word without commas", t)
		}
	}
	tags, err := r.Tags()
	if err != nil {
		return err
	}
	tags = slices.DeleteFunc(append(tags, add...), func(t string) bool { return slices.Contains(remove, t) })
	slices.Sort(tags)
	return replaceJSON(r.path(tagsFile), slices.Compact(tags))
}
