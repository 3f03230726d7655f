package world

import (
	"bufio"
	"io"

	"harness.invalid/core/dataset/internal/draw"
)

// life tells all about a person: where it began, the other topics in any order, and some things twice.
func (w *world) life(i int) *prose {
	d := w.draws(partLives, i)
	p := w.people[i]
	t := &prose{separator: "\n"}
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

// quizTopics is the number of topics of a quiz, and of its questions.
const quizTopics = 3

// quiz tells a little about a training person, asks for it and gives the answers in other words. It brings the words of questions into the
// text, and a reason to look up what was said about whom.
func (w *world) quiz(i int) *prose {
	d := w.draws(partQuizzes, i)
	p := w.people[i]
	t := &prose{separator: "\n"}
	for _, topic := range tellable(d, p)[:quizTopics] {
		t.tell(d, p, topics[topic])
	}
	told := t.facts
	for _, f := range d.Permutation(len(told))[:quizTopics] {
		r := told[f].relation
		t.say(d, p, pick(d, questionTexts(r))+" Answer: {"+string(r)+"}.")
	}
	return t
}

// visitors is the number of people that a document about a place has room for.
const visitors = 5

// guide tells about a place and people who have to do with it.
func (w *world) guide(d *draw.Draws, at *place, people []*person) *prose {
	t := &prose{separator: "\n"}
	t.text.WriteString(at.name + " is a city in " + at.country + ".")
	for i := range w.events {
		if e := &w.events[i]; e.place == at {
			t.text.WriteString("\nThe " + e.name + " is held in " + at.name + " every " + e.month + ".")
		}
	}
	for _, p := range people {
		topic := topics[2]
		if p.birthplace == at {
			topic = []string{"{S} was born in {birthplace}.", "{S} was born in {birthplace} in {birthyear}.", "{S} left {birthplace} and moved to {home}."}
		}
		t.tell(d, p, topic)
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
			put(w.quiz(i))
		}
	}
	for i := range w.places {
		d := w.draws(partPlaces, i)
		at := &w.places[i]
		var people []*person
		for _, p := range w.people {
			if p.birthplace == at || p.home == at {
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
