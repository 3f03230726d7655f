package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// said is what the text says about one arm compared with the first.
type said struct {
	Heading string
	Lines   []string
}

// verdicts puts the verdicts into words, the primary metric first. Metrics with the same verdict for the same
// reason share a line.
func verdicts(c *verdict.Comparison) []said {
	var all []said
	for _, p := range c.Comparisons {
		s := said{Heading: fmt.Sprintf("%s against %s:", p.Arm, p.Baseline)}
		judged := slices.DeleteFunc(slices.Clone(p.Metrics), func(d verdict.Difference) bool { return d.Verdict == "" })
		slices.SortStableFunc(judged, primaryFirst)
		for len(judged) > 0 {
			first := judged[0]
			same := func(d verdict.Difference) bool {
				return d.Verdict == first.Verdict && d.Direction == first.Direction && d.Reason == first.Reason
			}
			var names []string
			for _, d := range judged {
				if !same(d) {
					continue
				}
				name := FullName(d.Phase, d.Metric)
				if d.Primary {
					name += " (primary)"
				}
				names = append(names, name)
			}
			s.Lines = append(s.Lines, fmt.Sprintf("%s: %s: %s", strings.Join(names, ", "), verdictText(&first), first.Reason))
			judged = slices.DeleteFunc(judged, same)
		}
		if len(s.Lines) == 0 {
			s.Lines = []string{"no verdict: the recipe states no margins"}
		}
		all = append(all, s)
	}
	return all
}

func primaryFirst(a, b verdict.Difference) int {
	switch {
	case a.Primary == b.Primary:
		return 0
	case a.Primary:
		return -1
	}
	return 1
}

// note is a footnote.
type note struct {
	text string
	arm  *results.Arm // that it is about; nil: the comparison
}

// footnotes are the doubts of a comparison and of its runs.
type footnotes struct{ notes []note }

func newFootnotes(c *verdict.Comparison) *footnotes {
	f := &footnotes{}
	for _, text := range c.Notes {
		f.notes = append(f.notes, note{text: text})
	}
	for _, a := range c.Arms {
		var texts []string
		seeds := make(map[string][]string)
		for _, r := range c.Runs {
			if r.Arm != a.Arm {
				continue
			}
			for _, text := range r.Notes {
				if !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
				seeds[text] = append(seeds[text], fmt.Sprint(r.Seed))
			}
		}
		for _, text := range texts {
			word := "seed"
			if len(seeds[text]) > 1 {
				word = "seeds"
			}
			f.notes = append(f.notes, note{fmt.Sprintf("%s, %s %s: %s", a.Arm, word, strings.Join(seeds[text], ", "), text), &a.Arm})
		}
	}
	return f
}

// marks are the numbers of the notes on an arm, such as " [1,3]".
func (f *footnotes) marks(a results.Arm) string {
	var numbers []string
	for i, n := range f.notes {
		if n.arm != nil && *n.arm == a {
			numbers = append(numbers, fmt.Sprint(i+1))
		}
	}
	if len(numbers) == 0 {
		return ""
	}
	return " [" + strings.Join(numbers, ",") + "]"
}

// texts are the notes without their numbers.
func (f *footnotes) texts() []string {
	texts := make([]string, len(f.notes))
	for i, n := range f.notes {
		texts[i] = n.text
	}
	return texts
}

// paragraph breaks text into lines of a width; those after the first are indented by two more.
func paragraph(w io.Writer, width int, indent, text string) { paragraphBy(w, width, indent, 2, text) }

// paragraphBy breaks text into lines of a width; those after the first are indented further.
func paragraphBy(w io.Writer, width int, indent string, further int, text string) {
	line, used := indent, utf8.RuneCountInString(indent)
	for i, word := range words(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > width:
			fmt.Fprintln(w, line)
			line, used = indent+strings.Repeat(" ", further), utf8.RuneCountInString(indent)+further
		default:
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	fmt.Fprintln(w, line)
}

// words are the pieces between which a line may be broken; ± stays with the number after it.
func words(text string) []string {
	list := strings.Fields(strings.ReplaceAll(text, "± ", "±\uFFFF"))
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "\uFFFF", " ")
	}
	return list
}
