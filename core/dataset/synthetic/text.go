package synthetic

import (
	"bufio"
	"io"

	"harness.invalid/core/dataset/internal/draw"
)

// life tells all about a person: where it began, the other topics in any order, and some things twice.
func (w *world) life(i int) *prose {
	d := w.draws(partLives, i)
	p := w.people[i]
	t := &prose{separator: "\n", style: plain}
	t.tell(d, p, topics[0])
	again := fitting(p, retellings)
	d.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
	for n, topic := range d.Permutation(len(topics) - 1) {
		if list := topics[1+topic]; len(fitting(p, list)) > 0 {
			t.tell(d, p, list)
		}
		if n%2 == 1 {
			t.say(d, p, again[n/2])
		}
	}
	return t
}

// Sizes of a quiz.
const (
	quizzes       = 2 // for each training person
	quizTopics    = 2 // told of each of two people
	quizQuestions = 3
)

// quiz tells the same kind of things about two training people, asks for some and gives the answers. It brings the
// words of questions into the text, and a reason to look up what was said about whom.
func (w *world) quiz(i, round int) *prose {
	d := w.draws(partQuizzes, round*len(w.people)+i)
	two := []*person{w.people[i]}
	if p := other(d, w.training(), two); p != nil {
		two = append(two, p)
	}
	d.Shuffle(len(two), func(i, j int) { two[i], two[j] = two[j], two[i] })
	t := &prose{separator: "\n", style: formal}
	chosen := tellable(d, w.people[i])[:quizTopics]
	for _, p := range two {
		t.tellTopics(d, p, chosen)
	}
	told := t.facts
	for _, f := range d.Permutation(len(told))[:min(quizQuestions, len(told))] {
		t.say(d, told[f].about, pick(d, questionTexts(told[f].relation))+" Answer: {"+string(told[f].relation)+"}.")
	}
	return t
}

// visitors is the number of people that a document about a place has room for.
const visitors = 5

// birthHere says who was born in the place that a document is about.
var birthHere = []string{"{S} was born in {birthplace}.", "{S} was born in {birthplace} in {birthyear}.",
	"{S} left {birthplace} and moved to {home}."}

// guide tells about a place and people who were born there.
func (w *world) guide(d *draw.Draws, at *place, people []*person) *prose {
	t := &prose{separator: "\n", style: plain}
	t.text.WriteString(at.name + " is a city in " + at.country + ".")
	for i := range w.events {
		if e := &w.events[i]; e.place == at {
			t.text.WriteString("\nThe " + e.name + " is held in " + at.name + " every " + e.month + ".")
		}
	}
	for _, p := range people {
		t.tell(d, p, birthHere)
	}
	return t
}

// text writes all documents, one sentence a line and a blank line behind each.
func (w *world) text(out io.Writer) error {
	b := bufio.NewWriter(out)
	put := func(document *prose) {
		b.WriteString(document.text.String())
		b.WriteString("\n\n")
	}
	for i := range w.people {
		put(w.life(i))
		if i < len(w.training()) {
			for round := range quizzes {
				put(w.quiz(i, round))
			}
		}
	}
	for i := range w.places {
		d := w.draws(partPlaces, i)
		at := &w.places[i]
		var people []*person
		for _, p := range w.people {
			if p.birthplace == at {
				people = append(people, p)
			}
		}
		d.Shuffle(len(people), func(i, j int) { people[i], people[j] = people[j], people[i] })
		for {
			n := min(visitors, len(people))
			put(w.guide(d, at, people[:n]))
			if people = people[n:]; len(people) == 0 {
				break
			}
		}
	}
	return b.Flush()
}
