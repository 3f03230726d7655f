// Package spelling suggests the known word that a misspelt one probably means: an unknown word and the known ones
// go in, the nearest comes out. It also writes counts.
package spelling

import "fmt"

// Count is a number of things whose plural ends in s: 1 run, 2 runs.
func Count(n int, word string) string { return fmt.Sprintf("%d %s", n, Plural(n, word)) }

// Plural is the word for n things, whose plural ends in s.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// Nearest returns the known word with the smallest edit distance to word, the first of equals. It returns "" if
// more than a third of the letters, rounded up, would have to change.
func Nearest(word string, known []string) string {
	best, least := "", (len(word)+2)/3+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Hint returns ", did you mean X?" if a known word is near, else "".
func Hint(word string, known []string) string {
	if k := Nearest(word, known); k != "" {
		return ", did you mean " + k + "?"
	}
	return ""
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal
// string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
