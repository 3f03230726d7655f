// Package spelling finds the known word that an unknown one was probably meant to be.
package spelling

// Nearest returns the known word with the least edit distance to word (the first of equals), and "" when none is
// near: more than a third of the letters, rounded up, would have to change.
func Nearest(word string, known []string) string {
	best, least := "", (len(word)+2)/3+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Hint is ", did you mean X?" when some known word is near, else "".
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
